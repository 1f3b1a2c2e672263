/// The effect of an answer on the device.
package struct ApplyResult: Sendable {
    var revision: Int64 = 0
    var hasMore = false
    /// How many of the device's own change sets got their verdict.
    var settledCount = 0
    var hasPending = false
    /// Whether the file has changed since the request; then nothing was applied, and the device repeats the round.
    var isStale = false
    /// Whether the answer had only ids, and these did not suffice; then nothing was applied.
    var needsEcho = false
    /// Whether the file lacks the schema of the answer; then nothing was applied.
    var needsSchema = false
    /// Whether rebuilt tables wait for their comparison, so that no change set is sent.
    var hasRebuilt = false
    /// Whether the server has to tell the histories of some records first; then nothing was applied.
    var needsHistories = false
    var events: [DeviceEvent] = []
    /// Whether device and server have the same revisions and verdicts.
    var isInSync: Bool { !hasMore && !hasPending && !isStale && !hasRebuilt }
    /// Whether the device has the server's latest rows, to compare rebuilt tables with.
    var canCompareRebuilt: Bool { hasRebuilt && !hasMore && !isStale }
    var hasConflicts: Bool { events.contains { event in if case .conflict = event { true } else { false } } }
}
