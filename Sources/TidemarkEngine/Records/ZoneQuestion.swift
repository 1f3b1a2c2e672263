/// A question about a zone, which a store answers in a read transaction.
///
/// The store runs it on its own thread. It may run it again if another program has changed the tables
/// meanwhile, so a question has no effect.
public struct ZoneQuestion<Answer: Sendable>: Sendable {
    /// Answers from a read transaction.
    package let ask: @Sendable (any ZoneReader) throws -> Answer

    /// Creates a question.
    package init(_ ask: @escaping @Sendable (any ZoneReader) throws -> Answer) { self.ask = ask }
}
