package import TidemarkCore

/// Who listens to which zone, and what each has still to be told.
///
/// A listener only ever needs the latest revision, so nobody has a queue: however slow a listener
/// is, it costs the same few bytes. Time comes as ticks, and every function is a step that wakes
/// those whom it names.
package struct Audience {
    /// What a listener has asked for.
    package enum Kind: Sendable {
        /// To be told for as long as it stays, and to hear a sign of life now and then.
        case stays
        /// To be told once.
        case once
    }

    private struct Seat {
        let zone: String
        let kind: Kind
        /// The device that takes changes themselves; nil: whoever only wants to hear of them.
        let device: String?
        /// What it knows already.
        var told: ZoneRevision?
        /// Whether it should hear a sign of life.
        var isBeatDue = false
    }

    private struct Place {
        /// What the zone is at, as far as anybody has said since somebody listens.
        var latest: ZoneRevision?
        /// What led there from what was said before, where it is known and small.
        var change: ZoneChange?
        var listeners: Set<Int> = []
        /// How many of them take changes themselves.
        var takers = 0
    }

    private var listenersMax: Int
    private var seats: [Int: Seat] = [:]
    private var zonesListenedTo: [String: Place] = [:]
    /// Those who stay, spread over the ticks between two signs of life.
    private var turns: [Set<Int>]
    private var ticks = 0
    private var last = 0
    private(set) var isClosed = false

    /// Makes an empty audience.
    ///
    /// - Parameters:
    ///   - listenersMax: The most listeners at a time.
    ///   - ticksPerBeat: The ticks between two signs of life.
    package init(listenersMax: Int, ticksPerBeat: Int) {
        self.listenersMax = listenersMax
        turns = Array(repeating: [], count: max(1, ticksPerBeat))
    }

    /// How many listen.
    var count: Int { seats.count }
    /// The zones that somebody listens to.
    var zones: [String] { zonesListenedTo.keys.sorted() }

    /// Lowers the number of listeners for whom there is room.
    mutating func admit(atMost most: Int) { listenersMax = min(listenersMax, most) }

    /// Takes a new listener in, which knows what it has been told before; nil when there is no
    /// room.
    package mutating func join(_ zone: String, _ kind: Kind, told: ZoneRevision?, device: String? = nil) -> Int? {
        guard !isClosed, seats.count < listenersMax else { return nil }
        last += 1
        seats[last] = Seat(zone: zone, kind: kind, device: device, told: told)
        zonesListenedTo[zone, default: Place()].listeners.insert(last)
        if device != nil { zonesListenedTo[zone]?.takers += 1 }
        if kind == .stays { turns[last % turns.count].insert(last) }
        return last
    }

    /// Lets a listener go.
    package mutating func leave(_ listener: Int) {
        guard let seat = seats.removeValue(forKey: listener) else { return }
        turns[listener % turns.count].remove(listener)
        zonesListenedTo[seat.zone]?.listeners.remove(listener)
        if seat.device != nil { zonesListenedTo[seat.zone]?.takers -= 1 }
        if zonesListenedTo[seat.zone]?.listeners.isEmpty == true { zonesListenedTo[seat.zone] = nil }
    }

    /// What those who listen to a zone were told last; nil when nobody takes changes of it.
    package func base(of zone: String) -> ZoneRevision? {
        guard let place = zonesListenedTo[zone], place.takers > 0 else { return nil }
        return place.latest
    }

    /// Notes what a zone is at, and what led there if that is known.
    ///
    /// - Returns: The listeners for whom that is news.
    package mutating func committed(_ revision: ZoneRevision, by change: ZoneChange? = nil) -> [Int] {
        guard let place = zonesListenedTo[revision.zone], revision.isNews(to: place.latest) else { return [] }
        zonesListenedTo[revision.zone]?.latest = revision
        zonesListenedTo[revision.zone]?.change = change
        return place.listeners.sorted()
    }

    /// Notes what a listener knows from elsewhere.
    mutating func tell(_ revision: ZoneRevision, to listener: Int) { seats[listener]?.told = revision }

    /// Lets time go on by a tick.
    ///
    /// - Returns: The listeners who should hear a sign of life now.
    mutating func tick() -> [Int] {
        ticks += 1
        let due = turns[ticks % turns.count].sorted()
        for listener in due { seats[listener]?.isBeatDue = true }
        return due
    }

    /// Sends everybody away.
    ///
    /// - Returns: The listeners.
    mutating func close() -> [Int] {
        isClosed = true
        return seats.keys.sorted()
    }

    /// Whether there is something to tell a listener, or nothing will ever be.
    func isDue(_ listener: Int) -> Bool {
        guard let seat = seats[listener] else { return true }
        return isClosed || seat.isBeatDue || news(for: seat) != nil
    }

    /// What a listener is to be told now, which then counts as told; nil when there is nothing.
    package mutating func next(for listener: Int) -> FanOut.Message? {
        guard let seat = seats[listener] else { return nil }
        if let news = news(for: seat) {
            seats[listener]?.told = news
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
    func holds(_ listener: Int) -> Bool { seats[listener] != nil }

    /// The change itself, for whoever takes it, is where it begins, and did not make it.
    private func change(for seat: Seat) -> ZoneChange? {
        guard let device = seat.device, let change = zonesListenedTo[seat.zone]?.change, seat.told == change.base,
            !change.authors.contains(device)
        else { return nil }
        return change
    }

    /// What the zone is at, for whoever knows something else; also for who is ahead of it, since
    /// the server may be an older copy of itself.
    private func news(for seat: Seat) -> ZoneRevision? {
        guard let latest = zonesListenedTo[seat.zone]?.latest, latest != seat.told else { return nil }
        return latest
    }
}
