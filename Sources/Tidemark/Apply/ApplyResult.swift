/// The effect of an answer on the device.
package struct ApplyResult: Sendable {
    var revision: Int64 = 0
    var hasMore = false
    /// How many of the device's own change sets got their verdict.
    var settledCount = 0
    var hasPending = false
    var outcome = Outcome.applied
    /// Whether rebuilt tables wait for their comparison, so that no change set is sent.
    var hasRebuilt = false
    var events: [DeviceEvent] = []
    /// Whether device and server have the same revisions and verdicts.
    var isInSync: Bool { outcome == .applied && !hasMore && !hasPending && !hasRebuilt }
    var hasConflicts: Bool { events.contains { event in if case .conflict = event { true } else { false } } }

    /// Whether it was applied, or why not.
    enum Outcome: Hashable, Sendable {
        case applied
        /// The file has changed since the request.
        case overtaken
        /// The file lacks the schema of the answer.
        case needsSchema
        /// The answer had only ids, and these did not suffice.
        case needsRows
        /// The server has to tell the histories of some records first.
        case needsHistories
    }
}
