package import TidemarkCore

/// The listeners of all zones, and the next message for each.
///
/// A listener only needs the latest revision, so it has no queue: a slow listener costs the same
/// few bytes. Time comes as ticks. Each step returns the listeners to wake.
package struct Audience {
    /// How long a listener stays.
    package enum Kind: Sendable {
        /// Until it leaves; it receives heartbeats.
        case stays
        /// Until its first message; it receives no heartbeats.
        case once
    }

    private struct Seat {
        let zone: String
        let kind: Kind
        /// The device that receives changes; nil for a listener that receives revisions only.
        let device: String?
        /// The revision that the listener has.
        var lastRevision: ZoneRevision?
        /// Whether a heartbeat is due.
        var isBeatDue = false
    }

    private struct ZoneListeners {
        /// The latest revision published since the zone has listeners.
        var latest: ZoneRevision?
        /// The change from the previously published revision to ``latest``, if it is small.
        var change: ZoneChange?
        var listeners: Set<Int> = []
        /// The number of listeners that receive changes.
        var changeReceivers = 0
    }

    private var listenersMax: Int
    private var seats: [Int: Seat] = [:]
    private var zoneListeners: [String: ZoneListeners] = [:]
    /// The staying listeners, spread over the ticks between two heartbeats.
    private var turns: [Set<Int>]
    private var ticks = 0
    private var lastNumber = 0
    private(set) var isClosed = false

    /// Makes an empty audience.
    ///
    /// - Parameters:
    ///   - listenersMax: The most listeners at a time.
    ///   - ticksPerBeat: The ticks between two heartbeats of a listener.
    package init(listenersMax: Int, ticksPerBeat: Int) {
        self.listenersMax = listenersMax
        turns = Array(repeating: [], count: max(1, ticksPerBeat))
    }

    /// The number of listeners.
    var count: Int { seats.count }
    /// The zones that have listeners.
    var zones: [String] { zoneListeners.keys.sorted() }

    /// Lowers the most listeners at a time.
    mutating func admit(atMost most: Int) { listenersMax = min(listenersMax, most) }

    /// Adds a listener that has a revision already; nil when there is no room.
    package mutating func join(_ zone: String, _ kind: Kind, since revision: ZoneRevision?, device: String? = nil)
        -> Int?
    {
        guard !isClosed, seats.count < listenersMax else { return nil }
        lastNumber += 1
        seats[lastNumber] = Seat(zone: zone, kind: kind, device: device, lastRevision: revision)
        zoneListeners[zone, default: ZoneListeners()].listeners.insert(lastNumber)
        if device != nil { zoneListeners[zone]?.changeReceivers += 1 }
        if kind == .stays { turns[lastNumber % turns.count].insert(lastNumber) }
        return lastNumber
    }

    /// Removes a listener.
    package mutating func leave(_ listener: Int) {
        guard let seat = seats.removeValue(forKey: listener) else { return }
        turns[listener % turns.count].remove(listener)
        zoneListeners[seat.zone]?.listeners.remove(listener)
        if seat.device != nil { zoneListeners[seat.zone]?.changeReceivers -= 1 }
        if zoneListeners[seat.zone]?.listeners.isEmpty == true { zoneListeners[seat.zone] = nil }
    }

    /// The revision published last for a zone; nil if no listener receives changes of it.
    package func base(of zone: String) -> ZoneRevision? {
        guard let listeners = zoneListeners[zone], listeners.changeReceivers > 0 else { return nil }
        return listeners.latest
    }

    /// Records a zone's new revision, with the change that led to it if it is small.
    ///
    /// - Returns: The zone's listeners; empty if the revision is not new.
    package mutating func publish(_ revision: ZoneRevision, by change: ZoneChange? = nil) -> [Int] {
        guard let zone = zoneListeners[revision.zone], revision.isNews(to: zone.latest) else { return [] }
        zoneListeners[revision.zone]?.latest = revision
        zoneListeners[revision.zone]?.change = change
        return zone.listeners.sorted()
    }

    /// Records a revision that a listener received elsewhere.
    mutating func acknowledge(_ revision: ZoneRevision, by listener: Int) { seats[listener]?.lastRevision = revision }

    /// Advances the time by a tick.
    ///
    /// - Returns: The listeners whose heartbeat is due.
    mutating func tick() -> [Int] {
        ticks += 1
        let due = turns[ticks % turns.count].sorted()
        for listener in due { seats[listener]?.isBeatDue = true }
        return due
    }

    /// Closes the audience; each listener receives ``FanOut/Message/bye``.
    ///
    /// - Returns: All listeners.
    mutating func close() -> [Int] {
        isClosed = true
        return seats.keys.sorted()
    }

    /// Whether a listener has a message, or has ended.
    func isDue(_ listener: Int) -> Bool {
        guard let seat = seats[listener] else { return true }
        return isClosed || seat.isBeatDue || news(for: seat) != nil
    }

    /// Takes the next message for a listener; nil when there is none.
    package mutating func next(for listener: Int) -> FanOut.Message? {
        guard let seat = seats[listener] else { return nil }
        if let news = news(for: seat) {
            seats[listener]?.lastRevision = news
            return change(for: seat).map(FanOut.Message.changed) ?? .moved(news)
        }
        if isClosed {
            leave(listener)
            return .bye
        }
        guard seat.isBeatDue else { return nil }
        seats[listener]?.isBeatDue = false
        return .heartbeat
    }

    /// Whether a listener is still there.
    func contains(_ listener: Int) -> Bool { seats[listener] != nil }

    /// Returns the pushed change if the listener accepts changes, is at the change's base revision,
    /// and is not its author.
    private func change(for seat: Seat) -> ZoneChange? {
        guard let device = seat.device, let change = zoneListeners[seat.zone]?.change,
            seat.lastRevision == change.base, !change.authors.contains(device)
        else { return nil }
        return change
    }

    /// Returns the zone's revision if it differs from the listener's.
    ///
    /// A listener can be ahead: the server may be an older copy of itself.
    private func news(for seat: Seat) -> ZoneRevision? {
        guard let latest = zoneListeners[seat.zone]?.latest, latest != seat.lastRevision else { return nil }
        return latest
    }
}
