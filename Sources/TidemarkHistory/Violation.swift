/// A promise that a history breaks.
package struct Violation: Error, Sendable, CustomStringConvertible {
    /// The promises, numbered as in `Docs/Mission.md`, 'Invariants'.
    package enum Invariant: String, Sendable, CaseIterable {
        /// An acknowledged write is never lost.
        case acknowledgedStays = "I1"
        /// Unseen changes are never overwritten.
        case noSilentOverwrite = "I2"
        /// A change set is whole, for every observer.
        case atomic = "I3"
        /// Revisions are dense, and no cursor is ahead of its rows.
        case dense = "I4"
        /// All files end up equal, byte for byte.
        case converged = "I5"
        /// A change set takes effect at most once, and its verdict never changes.
        case once = "I6"
        /// No device receives rows that it may not see.
        case noForeignRow = "I7"
        /// References hold, and no temporary id is left over.
        case references = "I8"
        /// An edit is visible, acknowledged, or visibly refused.
        case intentKept = "I9"
        /// Once faults stop, everything drains.
        case live = "I10"
        /// Queues, answers and time are bounded.
        case bounded = "I11"
        /// Bad input changes nothing.
        case unharmed = "I12"
        /// The run has contained enough to prove something.
        case meaningful = "meta"
    }

    /// The promise.
    package let invariant: Invariant
    /// The index of the event that broke it.
    package let event: Int
    /// The device, or `server`.
    package let actor: String
    /// The record, change set or other subject.
    package let subject: String
    /// The expected state.
    package let expected: String
    /// The actual state.
    package let found: String

    /// Makes a violation.
    package init(_ invariant: Invariant, event: Int, actor: String, subject: String, expected: String, found: String) {
        self.invariant = invariant
        self.event = event
        self.actor = actor
        self.subject = subject
        self.expected = expected
        self.found = found
    }

    /// The violation in one line.
    package var description: String {
        "\(invariant.rawValue) at event \(event), \(actor), \(subject):" + " expected \(expected), found \(found)"
    }
}
