internal import Synchronization
public import TidemarkCore

/// Tells those who listen that a zone has moved on.
///
/// The shell around ``Audience``: one lock, and one suspended task a listener, which is that of its
/// connection. Safe to use from any task or thread.
public final class FanOut: Sendable {
    /// What a listener is told.
    public enum Message: Hashable, Sendable {
        /// The zone is at this revision; those in between were never mentioned.
        case moved(ZoneRevision)
        /// What has led from the revision that the listener was told last to a later one.
        case changed(ZoneChange)
        /// Nothing happened; the connection is alive.
        case heartbeat
        /// The server goes away: listen elsewhere.
        case bye
    }

    private struct State {
        var audience: Audience
        var waiting: [Int: CheckedContinuation<Void, Never>] = [:]
    }

    private let state: Mutex<State>
    private let metrics: ServerMetrics
    /// The time between two calls of ``tick()``, in milliseconds.
    public let tickMilliseconds: Int

    /// Makes one that nobody listens to; `metrics` are told how many listen.
    public init(limits: Limits = .standard, metrics: ServerMetrics = ServerMetrics()) {
        self.metrics = metrics
        tickMilliseconds = max(1, limits.listenerTickMilliseconds)
        let audience = Audience(
            listenersMax: limits.listenersMax,
            ticksPerBeat: limits.heartbeatMilliseconds / tickMilliseconds
        )
        state = Mutex(State(audience: audience))
    }

    /// Takes in at most so many listeners from now on, if that is less than the limit.
    public func admit(atMost listenersMax: Int) { state.withLock { $0.audience.admit(atMost: listenersMax) } }

    /// How many listen now.
    public var listenerCount: Int { state.withLock(\.audience.count) }
    /// The zones that somebody listens to now.
    public var zones: [String] { state.withLock(\.audience.zones) }

    // MARK: Telling

    /// Notes that a zone has reached a revision of a history, which is durable.
    ///
    /// Called in any order and on any thread; does not wait. Too many calls do no harm, and a lost
    /// one is made good by the next, or by whoever looks at the zone later.
    public func committed(zone: String, epoch: String, revision: Int64) {
        committed(ZoneRevision(zone: zone, epoch: epoch, revision: revision))
    }

    /// Notes what a zone is at, and what led there if that is known.
    public func committed(_ revision: ZoneRevision, by change: ZoneChange? = nil) {
        wake { $0.committed(revision, by: change) }
    }

    /// What those who listen to a zone were told last; nil when nobody there takes changes
    /// themselves.
    public func base(of zone: String) -> ZoneRevision? { state.withLock { $0.audience.base(of: zone) } }

    /// Lets time go on by a tick: those whose turn it is hear a sign of life.
    public func tick() { wake { $0.tick() } }

    /// Says good bye to everybody, and takes nobody in any more.
    public func close() { wake { $0.close() } }

    private func wake(_ step: (inout Audience) -> [Int]) {
        let woken = state.withLock { state in step(&state.audience).compactMap { state.waiting.removeValue(forKey: $0) }
        }
        for continuation in woken { continuation.resume() }
    }

    // MARK: Listening

    /// Begins to listen.
    ///
    /// Then make what the zone is at known by ``committed(_:)``: it may have been missed before.
    ///
    /// - Parameters:
    ///   - zone: The zone.
    ///   - told: What the listener knows; nil: nothing.
    ///   - device: The device that takes small changes themselves; nil: only tell that there are
    ///     some.
    ///   - isOnce: Whether it waits for one message and then goes; it hears no heartbeats.
    /// - Returns: The listener, who listens for as long as somebody holds it.
    /// - Throws: `unavailable` when there is no room, or the server is going away.
    public func listen(to zone: String, told: ZoneRevision? = nil, device: String? = nil, isOnce: Bool = false)
        throws(TidemarkError) -> Listener
    {
        let (listener, isClosed) = state.withLock { state in
            let kind = isOnce ? Audience.Kind.once : .stays
            let listener = state.audience.join(zone, kind, told: told, device: device)
            metrics.listeners(state.audience.count)
            return (listener, state.audience.isClosed)
        }
        guard let listener else {
            throw TidemarkError(
                .unavailable,
                isClosed ? "The server is shutting down." : "The server has listeners enough.",
                fix: "Try again later; POST /sync tells the same when it is asked."
            )
        }
        return Listener(listener, of: self)
    }

    /// What a listener is told next; nil when it has left.
    fileprivate func next(for listener: Int) async -> Message? {
        await withTaskCancellationHandler {
            while true {
                let (message, isThere) = state.withLock { state in
                    let message = state.audience.next(for: listener)
                    if message == .bye { metrics.listeners(state.audience.count) }
                    return (message, state.audience.holds(listener))
                }
                if message != nil || !isThere { return message }
                await due(listener)
            }
        } onCancel: {
            leave(listener)
        }
    }

    /// Returns when there is something to tell, or the listener has left.
    private func due(_ listener: Int) async {
        await withCheckedContinuation { continuation in
            let isDue = state.withLock { state in
                let isDue = state.audience.isDue(listener)
                if !isDue { state.waiting[listener] = continuation }
                return isDue
            }
            if isDue { continuation.resume() }
        }
    }

    fileprivate func tell(_ revision: ZoneRevision, to listener: Int) {
        state.withLock { $0.audience.tell(revision, to: listener) }
    }

    fileprivate func leave(_ listener: Int) {
        let waiting = state.withLock { state in
            state.audience.leave(listener)
            metrics.listeners(state.audience.count)
            return state.waiting.removeValue(forKey: listener)
        }
        waiting?.resume()
    }
}

/// One who listens to a zone, until nobody holds it any more or it leaves.
public final class Listener: Sendable {
    private let number: Int
    private let fanOut: FanOut

    fileprivate init(_ number: Int, of fanOut: FanOut) {
        self.number = number
        self.fanOut = fanOut
    }

    deinit { fanOut.leave(number) }

    /// Waits for what is to be told next; nil when the listener, or the task, has been told to
    /// stop.
    ///
    /// One task at a time may wait. After ``FanOut/Message/bye`` comes nil.
    public func next() async -> FanOut.Message? { await fanOut.next(for: number) }

    /// Notes what the listener knows from elsewhere.
    public func knows(_ revision: ZoneRevision) { fanOut.tell(revision, to: number) }

    /// Stops: whoever waits gets nil.
    public func leave() { fanOut.leave(number) }
}
