/// A question about a zone, which a store answers in a read transaction.
///
/// The store runs it on its own thread. It may run it again if another program has changed the tables
/// meanwhile, so a question has no effect.
public struct ZoneQuestion<Answer: Sendable>: Sendable {
    /// Answers from a read transaction.
    package let ask: @Sendable (any ZoneReader) throws -> Answer
    /// Whether the question is a part of a write, and looks at the write's records only.
    ///
    /// It then needs no place among the readers of a zone, so that no list keeps a write waiting.
    package let isPartOfWrite: Bool

    /// Creates a question.
    package init(isPartOfWrite: Bool = false, _ ask: @escaping @Sendable (any ZoneReader) throws -> Answer) {
        self.isPartOfWrite = isPartOfWrite
        self.ask = ask
    }
}
