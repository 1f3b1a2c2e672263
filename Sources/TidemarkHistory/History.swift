/// The events of a run, in order.
package struct History: Sendable {
    /// The tables, and the bounds.
    package let rules: Rules
    /// The events, oldest first.
    package private(set) var events: [Event] = []

    /// Makes an empty history.
    package init(rules: Rules) { self.rules = rules }

    /// Appends an event.
    package mutating func append(_ event: Event) { events.append(event) }

    /// Finds everything that breaks a promise, oldest first, in linear time.
    package func violations() -> [Violation] {
        var checker = HistoryChecker(rules: rules)
        return events.flatMap { checker.check($0) }
    }
}
