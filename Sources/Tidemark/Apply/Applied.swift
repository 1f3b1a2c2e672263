/// What an answer changed on the device.
package struct Applied: Sendable {
    /// The device's revision afterwards.
    var revision: Int64 = 0
    /// Whether the server has more.
    var hasMore = false
    /// How many of the device's own change sets got their verdict.
    var settledCount = 0
    /// Whether change sets wait that were not part of the request.
    var hasPending = false
    /// The answer was to an older state of the file; nothing was done, and the round has to be
    /// repeated.
    var isStale = false
    /// The answer brought ids alone, and these did not suffice; nothing was done.
    var needsEcho = false
    /// The answer was made by tables that the file does not know yet; nothing was done.
    var knowsOldSchema = false
    /// What to tell the app.
    var events: [SyncEvent] = []

    /// Whether both sides have everything.
    var isEven: Bool { !hasMore && !hasPending && !isStale }
}
