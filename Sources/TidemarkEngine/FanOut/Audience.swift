package import TidemarkCore

/// The listeners of all zones, and the next message for each.
///
/// A listener only needs the latest revision, so it has no queue: a slow listener costs the same
/// few bytes. Time comes as ticks. Each step returns the listeners to wake.
package struct Audience {
    private struct Seat {
        /// The device that receives changes; nil for a listener that receives revisions only.
        let device: String?
        var zones: [String]
        var lastRevisions: [String: ZoneRevision]
        var isBeatDue = false
        /// The version of the user's list of zones that the listener has to learn.
        var list: Int64?
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
    /// The listeners, spread over the ticks between two heartbeats.
    private var turns: [Set<Int>]
    private var ticks = 0
    private var lastNumber = 0
    private(set) var isClosed = false

    /// Makes an empty audience, in which each listener has a heartbeat after `ticksPerBeat` ticks.
    package init(listenersMax: Int, ticksPerBeat: Int) {
        self.listenersMax = listenersMax
        turns = Array(repeating: [], count: max(1, ticksPerBeat))
    }

    var count: Int { seats.count }
    var zones: [String] { zoneListeners.keys.sorted() }

    /// Lowers the most listeners at a time.
    mutating func admit(atMost most: Int) { listenersMax = min(listenersMax, most) }

    /// Adds a listener of a zone that has a revision already; nil when there is no room.
    package mutating func join(_ zone: String, since revision: ZoneRevision?, device: String? = nil) -> Int? {
        guard let listener = join(device: device) else { return nil }
        setZones([zone], of: listener)
        seats[listener]?.lastRevisions[zone] = revision
        return listener
    }

    /// Adds a listener without zones; nil when there is no room.
    mutating func join(device: String? = nil) -> Int? {
        guard !isClosed, seats.count < listenersMax else { return nil }
        lastNumber += 1
        seats[lastNumber] = Seat(device: device, zones: [], lastRevisions: [:])
        turns[lastNumber % turns.count].insert(lastNumber)
        return lastNumber
    }

    /// Changes the zones of a listener; it keeps the revisions that it has of those that stay.
    mutating func setZones(_ zones: Set<String>, of listener: Int) {
        guard let seat = seats[listener] else { return }
        for zone in zones.subtracting(seat.zones) {
            zoneListeners[zone, default: ZoneListeners()].listeners.insert(listener)
            if seat.device != nil { zoneListeners[zone]?.changeReceivers += 1 }
        }
        for zone in Set(seat.zones).subtracting(zones) {
            seats[listener]?.lastRevisions[zone] = nil
            zoneListeners[zone]?.listeners.remove(listener)
            if seat.device != nil { zoneListeners[zone]?.changeReceivers -= 1 }
            if zoneListeners[zone]?.listeners.isEmpty == true { zoneListeners[zone] = nil }
        }
        seats[listener]?.zones = zones.sorted()
    }

    /// Has a listener learn that its user's list of zones has a new version.
    mutating func announce(list version: Int64, to listener: Int) { seats[listener]?.list = version }

    package mutating func leave(_ listener: Int) {
        setZones([], of: listener)
        seats[listener] = nil
        turns[listener % turns.count].remove(listener)
    }

    /// The revision published last for a zone; nil if no listener receives changes of it.
    package func base(of zone: String) -> ZoneRevision? {
        guard let listeners = zoneListeners[zone], listeners.changeReceivers > 0 else { return nil }
        return listeners.latest
    }

    /// Records a revision, with the small change that led to it, and returns the listeners; none if it is not new.
    package mutating func publish(_ revision: ZoneRevision, by change: ZoneChange? = nil) -> [Int] {
        guard let zone = zoneListeners[revision.zone], revision.isNews(to: zone.latest) else { return [] }
        zoneListeners[revision.zone]?.latest = revision
        zoneListeners[revision.zone]?.change = change
        return zone.listeners.sorted()
    }

    /// Advances the time by a tick, and returns the listeners whose heartbeat is due.
    mutating func tick() -> [Int] {
        ticks += 1
        let due = turns[ticks % turns.count].sorted()
        for listener in due { seats[listener]?.isBeatDue = true }
        return due
    }

    /// Makes a heartbeat due for every listener, and returns them.
    package mutating func beat() -> [Int] {
        let all = turns.reduce(into: Set<Int>()) { $0.formUnion($1) }.sorted()
        for listener in all { seats[listener]?.isBeatDue = true }
        return all
    }

    /// Closes the audience, and returns the listeners, who receive ``FanOut/Message/bye``.
    mutating func close() -> [Int] {
        isClosed = true
        return seats.keys.sorted()
    }

    /// Whether a listener has a message, or has ended.
    func isDue(_ listener: Int) -> Bool {
        guard let seat = seats[listener] else { return true }
        return isClosed || seat.isBeatDue || seat.list != nil || news(for: seat) != nil
    }

    /// Takes the next message for a listener; nil when there is none.
    package mutating func next(for listener: Int) -> FanOut.Message? {
        guard let seat = seats[listener] else { return nil }
        if let version = seat.list {
            seats[listener]?.list = nil
            return .listed(version)
        }
        if let news = news(for: seat) {
            seats[listener]?.lastRevisions[news.zone] = news
            return change(for: seat, in: news.zone).map(FanOut.Message.changed) ?? .moved(news)
        }
        if isClosed {
            leave(listener)
            return .bye
        }
        guard seat.isBeatDue else { return nil }
        seats[listener]?.isBeatDue = false
        return .heartbeat
    }

    func contains(_ listener: Int) -> Bool { seats[listener] != nil }

    /// Returns the pushed change if the listener accepts changes, is at its base revision, and is not its author.
    private func change(for seat: Seat, in zone: String) -> ZoneChange? {
        guard let device = seat.device, let change = zoneListeners[zone]?.change,
            seat.lastRevisions[zone] == change.base, !change.authors.contains(device)
        else { return nil }
        return change
    }

    /// Returns the first revision unlike the listener's, also an earlier one: the server may be an older copy.
    private func news(for seat: Seat) -> ZoneRevision? {
        for zone in seat.zones {
            if let latest = zoneListeners[zone]?.latest, latest != seat.lastRevisions[zone] { return latest }
        }
        return nil
    }
}

/// The change from one revision of a zone to a later one, small enough to push to listeners.
///
/// It holds the answer that the server gives to a device with the tag ``since``, so such a device
/// need not send a request. It is created once and shared by all listeners.
package final class ZoneChange: Sendable {
    package let base: ZoneRevision
    /// The tag of the devices that can apply the change.
    package let since: ZoneTag
    package let end: ZoneRevision
    /// The devices whose change sets it contains; they have them already.
    package let authors: Set<String>
    /// The answer, JSON on one line.
    package let answer: String

    package init(base: ZoneRevision, since: ZoneTag, end: ZoneRevision, authors: Set<String>, answer: String) {
        self.base = base
        self.since = since
        self.end = end
        self.authors = authors
        self.answer = answer
    }
}

extension ZoneChange: Hashable {
    /// Compares identities: a change is created only once.
    package static func == (a: ZoneChange, b: ZoneChange) -> Bool { a === b }
    package func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
