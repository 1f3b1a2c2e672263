import Tidemark
import TidemarkCore
import TidemarkEngine

/// The listeners of the server's process.
///
/// The real audience decides the news of each. A connection is cut when the device or the server
/// ends, and loses the messages on their way. Otherwise it delivers in any order, which is harsher
/// than a real one.
struct Listeners {
    /// A connection on which a device listens.
    struct Seat {
        /// Its number in the audience.
        let listener: Int
        /// Its number in the run.
        let connection: Int
        /// The number of the app's starts at the connection.
        let starts: Int
    }

    var audience = Audience(listenersMax: 1_000, ticksPerBeat: 1)
    /// By the numbers of devices.
    var seats: [Int: Seat] = [:]
    /// The connections so far.
    var connections = 0

    /// Makes an empty set of listeners.
    init() {}

    /// Makes an empty set of listeners for the next process.
    init(after other: Listeners) { connections = other.connections }
}

/// The part of `Listening` and `Announcements` in the product.
extension World {
    /// Connects every device that can listen, and cuts the others.
    func listen() throws {
        guard options.profile.hasListeners else { return }
        for device in devices {
            let isThere = device.isUp && device.isReachable
            if let seat = listeners.seats[device.number] {
                guard !isThere || seat.starts != device.starts else { continue }
                cut(device.number)
            }
            if isThere { try connect(device) }
        }
    }

    private func connect(_ device: SimulatedDevice) throws {
        let (identity, revision) = try device.access { (try DeviceFile($0).device, try ZoneRevision(knownIn: $0)) }
        let zone = SimulatedServer.zone
        guard let listener = listeners.audience.join(zone, since: revision, device: identity) else { return }
        listeners.connections += 1
        listeners.seats[device.number] = Listeners.Seat(
            listener: listener, connection: listeners.connections, starts: device.starts)
        // The device may have missed the zone's latest revision.
        try tell(listeners.audience.publish(server.reached()))
    }

    private func cut(_ device: Int) {
        guard let seat = listeners.seats.removeValue(forKey: device) else { return }
        listeners.audience.leave(seat.listener)
    }

    /// Tells the listeners the server's commit, with the change itself if it is small.
    func announce() throws {
        guard options.profile.hasListeners else { return }
        let reached = try server.reached()
        guard let base = listeners.audience.base(of: SimulatedServer.zone), reached.isNews(to: base) else { return }
        let change = try server.change(after: base)
        try tell(listeners.audience.publish(change?.end ?? reached, by: change))
    }

    private func tell(_ woken: [Int]) throws {
        decisions.begin(.carry)
        for (number, seat) in listeners.seats.sorted(by: { $0.key < $1.key }) {
            guard woken.contains(seat.listener) else { continue }
            let hint: Hint
            switch listeners.audience.next(for: seat.listener) {
            case .moved(let revision): hint = Hint(end: revision)
            case .changed(let change):
                let answer = Array(change.answer.utf8)
                let pushedChange = PushedChange(end: change.end, since: change.since, answer: answer)
                hint = Hint(end: change.end, change: pushedChange)
            case .heartbeat, .bye, .listed, nil: continue
            }
            guard !isLost() else {
                note("the connection of \(self[number].name) is cut")
                cut(number)
                continue
            }
            let event = Event.hear(device: number, connection: seat.connection, hint)
            schedule(event, after: transit())
        }
    }

    /// Delivers news to a device, which syncs for them.
    func hear(_ hint: Hint, device: SimulatedDevice, connection: Int) throws -> Bool {
        guard let seat = listeners.seats[device.number], seat.connection == connection, seat.starts == device.starts,
            device.isUp, device.isReachable
        else { return false }
        note("\(device.name) is told of \(hint.end.revision)\(hint.change == nil ? "" : ", and how")")
        device.hint = hint
        return try beginSync(device, process: SimulatedDevice.app)
    }

    /// Applies news in a process as if it had requested them.
    func applyPushedAnswer(_ outgoing: DeviceCore.Outgoing, device: SimulatedDevice, process: Int) {
        decisions.begin(.carry)
        requests += 1
        note("\(device.name) need not ask, request \(requests)")
        device.processes[process].exchange = (requests, outgoing)
        var answer = outgoing.pushedAnswer ?? []
        var message = Message(device: device.number, process: process, number: requests, body: outgoing.body)
        if !isHealed, decisions.chance(plan.garbled) {
            counters[.garbled] += 1
            answer = Array(answer.prefix(decisions.decide(answer.count)))
            message.isCut = true
        }
        schedule(.answer(message, .success(answer)), after: drawDelay(50_000))
    }
}
