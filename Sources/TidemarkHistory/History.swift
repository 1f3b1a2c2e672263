/// What happened in a run, in order.
public struct History: Sendable {
    /// The tables, and the bounds.
    public let rules: Rules
    /// What happened, oldest first.
    public private(set) var events: [Event] = []

    /// Makes an empty history.
    public init(rules: Rules) { self.rules = rules }

    /// Notes what happened next.
    public mutating func append(_ event: Event) { events.append(event) }

    /// Everything in it that breaks a promise, oldest first; linear in its length.
    public func violations() -> [Violation] {
        var checker = HistoryChecker(rules: rules)
        return events.flatMap { checker.check($0) }
    }
}
