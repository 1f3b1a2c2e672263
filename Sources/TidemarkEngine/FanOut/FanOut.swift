internal import Synchronization
package import TidemarkCore

/// Notifies listeners of new revisions.
///
/// This is the asynchronous shell around ``Audience``. It has one lock, and each listener suspends
/// the task of its connection. Safe to use from any task or thread.
public final class FanOut: Sendable {
    package enum Message: Hashable, Sendable {
        /// The zone is at this revision; earlier ones may be skipped.
        case moved(ZoneRevision)
        /// The change from the listener's revision to a later one.
        case changed(ZoneChange)
        /// The user's list of zones has a new version.
        case listed(Int64)
        /// Nothing happened; the connection is alive.
        case heartbeat
        /// The server shuts down: listen elsewhere.
        case bye
    }

    private struct State {
        var audience: Audience
        var waiting: [Int: CheckedContinuation<Void, Never>] = [:]
    }

    private let state: Mutex<State>
    private let metrics: ServerMetrics
    /// The time between two calls of ``tick()``, in milliseconds.
    package let tickMilliseconds: Int

    /// Makes a fan-out without listeners; `metrics` records their number.
    package init(limits: Limits = .standard, metrics: ServerMetrics = ServerMetrics()) {
        self.metrics = metrics
        tickMilliseconds = max(1, limits.listenerTickMilliseconds)
        let audience = Audience(
            listenersMax: limits.listenersMax, ticksPerBeat: limits.heartbeatMilliseconds / tickMilliseconds)
        state = Mutex(State(audience: audience))
    }

    /// Lowers the most listeners at a time to `listenersMax`, if that is less than the limit.
    package func admit(atMost listenersMax: Int) { state.withLock { $0.audience.admit(atMost: listenersMax) } }

    package var listenerCount: Int { state.withLock(\.audience.count) }
    package var zones: [String] { state.withLock(\.audience.zones) }

    /// Publishes a durable revision of a zone, in any order and on any thread; it does not wait.
    ///
    /// Repeated calls have no effect. The next call, or ``SyncService/look(zone:)``, makes up for a lost one.
    package func publish(zone: String, epoch: String, revision: Int64) {
        publish(ZoneRevision(zone: zone, epoch: epoch, revision: revision))
    }

    package func publish(_ revision: ZoneRevision, by change: ZoneChange? = nil) {
        wake { $0.publish(revision, by: change) }
    }

    /// The revision published last for a zone; nil if no listener receives changes of it.
    package func base(of zone: String) -> ZoneRevision? { state.withLock { $0.audience.base(of: zone) } }

    /// Advances the time by a tick, and sends the heartbeats that are due.
    package func tick() { wake { $0.tick() } }

    /// Sends a heartbeat to all listeners now; each of them checks its access then.
    package func beat() { wake { $0.beat() } }

    /// Sends ``Message/bye`` to all listeners, and accepts no new ones.
    package func close() { wake { $0.close() } }

    private func wake(_ step: (inout Audience) -> [Int]) {
        let woken = state.withLock { state in step(&state.audience).compactMap { state.waiting.removeValue(forKey: $0) }
        }
        for continuation in woken { continuation.resume() }
    }

    /// Adds a listener that has `revision`, and with a device receives small changes; it leaves when it is deallocated.
    ///
    /// Then call ``publish(_:by:)`` with the zone's revision: an earlier commit may have been missed.
    ///
    /// - Throws: `unavailable` when there is no room, or the server shuts down.
    package func listen(to zone: String, since revision: ZoneRevision? = nil, device: String? = nil)
        throws(TidemarkError) -> Listener
    { try enter { $0.join(zone, since: revision, device: device) } }

    /// Adds a listener of several zones, see ``Listener/setZones(_:)``; throws `unavailable` as for one zone.
    package func listen() throws(TidemarkError) -> Listener { try enter { $0.join() } }

    private func enter(_ join: (inout Audience) -> Int?) throws(TidemarkError) -> Listener {
        let (listener, isClosed) = state.withLock { state in
            let listener = join(&state.audience)
            metrics.setListeners(state.audience.count)
            return (listener, state.audience.isClosed)
        }
        guard let listener else {
            throw TidemarkError(
                .unavailable, isClosed ? "The server is shutting down." : "The server has no room for more listeners.",
                fix: "Try again later; until then, ask for news by POST /sync.")
        }
        return Listener(listener, of: self)
    }

    /// Waits for a listener's next message; nil when it has left.
    fileprivate func next(for listener: Int) async -> Message? {
        await withTaskCancellationHandler {
            while true {
                let (message, isThere) = state.withLock { state in
                    let message = state.audience.next(for: listener)
                    if message == .bye { metrics.setListeners(state.audience.count) }
                    return (message, state.audience.contains(listener))
                }
                if message != nil || !isThere { return message }
                await waitUntilDue(listener)
            }
        } onCancel: {
            leave(listener)
        }
    }

    private func waitUntilDue(_ listener: Int) async {
        await withCheckedContinuation { continuation in
            let isDue = state.withLock { state in
                let isDue = state.audience.isDue(listener)
                if !isDue { state.waiting[listener] = continuation }
                return isDue
            }
            if isDue { continuation.resume() }
        }
    }

    fileprivate func setZones(_ zones: Set<String>, of listener: Int) {
        state.withLock { $0.audience.setZones(zones, of: listener) }
    }

    fileprivate func announce(list version: Int64, to listener: Int) {
        wake { audience in
            audience.announce(list: version, to: listener)
            return [listener]
        }
    }

    fileprivate func leave(_ listener: Int) {
        let waiting = state.withLock { state in
            state.audience.leave(listener)
            metrics.setListeners(state.audience.count)
            return state.waiting.removeValue(forKey: listener)
        }
        waiting?.resume()
    }
}

/// A listener of one zone or several, until it leaves or is deallocated.
package final class Listener: Sendable {
    private let number: Int
    private let fanOut: FanOut

    fileprivate init(_ number: Int, of fanOut: FanOut) {
        self.number = number
        self.fanOut = fanOut
    }

    deinit { fanOut.leave(number) }

    /// Waits for the next message, in one task at a time; nil after ``FanOut/Message/bye``, a leave or a cancellation.
    package func next() async -> FanOut.Message? { await fanOut.next(for: number) }

    /// Changes the listener's zones; then publish the revisions of new ones: earlier commits may have been missed.
    package func setZones(_ zones: Set<String>) { fanOut.setZones(zones, of: number) }

    /// Sends the listener that its user's list of zones has a new version.
    package func announce(list version: Int64) { fanOut.announce(list: version, to: number) }

    /// Stops listening; a waiting ``next()`` returns nil.
    package func leave() { fanOut.leave(number) }
}

/// Publishes a store's commits to listeners: a small change itself, else its revision only.
///
/// One task a zone reads and renders each change once for all listeners; later commits are published together. If no
/// listener receives changes, or reading fails, only the revision is published. Safe to use from any task.
package final class Announcements: Sendable {
    /// Reads the change from a revision to a zone's latest; nil if it is not available or not small.
    package typealias Read = @Sendable (_ base: ZoneRevision) async throws -> ZoneChange?

    private struct State {
        var read: Read?
        var latestByZone: [String: ZoneRevision] = [:]
    }

    private let fanOut: FanOut
    private let state = Mutex(State())

    /// Publishes revisions only, until ``start(_:)``.
    package init(_ fanOut: FanOut) { self.fanOut = fanOut }

    package func start(_ read: @escaping Read) { state.withLock { $0.read = read } }

    package func hasListeners(in zone: String) -> Bool { fanOut.zones.contains(zone) }

    /// Publishes a zone's revision; returns at once.
    package func publish(_ revision: ZoneRevision) {
        guard let read = state.withLock(\.read), let base = fanOut.base(of: revision.zone), revision.isNews(to: base)
        else { return fanOut.publish(revision) }
        let isFirst = state.withLock { state in
            let pending = state.latestByZone[revision.zone]
            if revision.isNews(to: pending) { state.latestByZone[revision.zone] = revision }
            return pending == nil
        }
        if isFirst { Task { await publishAll(from: revision, by: read) } }
    }

    /// Publishes a zone's revisions until no newer one arrives.
    private func publishAll(from first: ZoneRevision, by read: Read) async {
        var next: ZoneRevision? = first
        while let revision = next {
            let change = await change(to: revision, by: read)
            fanOut.publish(change?.end ?? revision, by: change)
            next = state.withLock { state in
                let latest = state.latestByZone[revision.zone]
                if latest == revision { state.latestByZone[revision.zone] = nil }
                return latest == revision ? nil : latest
            }
        }
    }

    private func change(to revision: ZoneRevision, by read: Read) async -> ZoneChange? {
        guard let base = fanOut.base(of: revision.zone), revision.isNews(to: base) else { return nil }
        do { return try await read(base) } catch {
            // Listeners request the revision, and receive the error then.
            return nil
        }
    }
}
