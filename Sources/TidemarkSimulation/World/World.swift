import Foundation
import GRDB
import Tidemark
import TidemarkCore
import TidemarkHistory
import TidemarkSQL

/// A server, some devices and a network between them, all in one thread and in virtual time.
///
/// One heap has the due events. Each event is one step: an edit, an arriving message, one step of a
/// sync. Between any two of them processes may end.
final class World {
    /// The kinds of due events.
    enum Event {
        /// An action.
        case act
        /// A request arrives at the server.
        case arrive(Message)
        /// An answer, or a timeout, reaches a process.
        case answer(Message, Result<[UInt8], TidemarkError>)
        /// News reach a device that listens, on a connection.
        case hear(device: Int, connection: Int, Hint)
        /// A process takes the next step of its sync.
        case advance(device: Int, process: Int, life: Int)
        /// A device's process begins again.
        case begin(device: Int)
        /// The server's process begins again.
        case serve
        /// A request over REST takes its next step.
        case rest(RestCall, RestStep)
    }

    /// A request, on its way.
    struct Message {
        let device: Int
        let process: Int
        let number: Int
        let body: [UInt8]
        /// The tag that travels instead of the body of a short question.
        var short: DeviceCore.ConditionalGet?
        /// The number of requests before its arrival, which shows whether it is late.
        var isCopy = false
        /// Whether its answer was cut on the way.
        var isCut = false
        /// The number of restores of the server's file before the answer.
        var history = 0
    }

    let options: SimulationOptions
    let plan: Plan
    private let actions: [any Action]
    let storage: any SimulatedStorage
    let server: SimulatedServer
    var devices: [SimulatedDevice] = []
    private(set) var clients: [RestClient] = []
    var decisions: Decisions
    var trace: Trace
    var recorder: Recorder
    var counters = Counters()
    /// The number of writes, which is part of every value.
    var writes = 0
    /// The requests so far.
    var requests = 0
    /// The requests that wait at the server for its next commit.
    var gathered: [Message] = []
    /// The listeners of the server's process.
    var listeners = Listeners()
    /// The amount that a client has read.
    var amount: AmountLook?
    /// The conflicts as people saw them, by id.
    var views: [String: Conflict] = [:]
    /// The copies of files so far.
    var backups: [Backup] = []
    /// Whether faults have stopped for good.
    var isHealed = false

    private var heap = EventHeap<Event>()
    private(set) var now: Int64 = 0

    init(
        _ options: SimulationOptions, actions: [any Action], storage: any SimulatedStorage, templates: FileTemplates,
        journal: Journal? = nil
    ) throws {
        self.options = options
        self.actions = actions
        self.storage = storage
        decisions = options.replay.map { Decisions(replaying: $0) } ?? Decisions(seed: options.seed)
        trace = Trace(keepsLines: options.isTracing)
        plan = Plan(
            &decisions, actions, profile: options.profile,
            hasDiskFaults: options.profile.hasDiskFaults(seed: options.seed))
        recorder = Recorder(
            policies: plan.policies.mapValues(\.rawValue),
            version: options.profile.firstVersion,
            // Otherwise the server sends no times.
            tellsTime: plan.policies.values.contains(.latest),
            migrates: options.profile.migrates,
            ledger: options.profile.followsFates ? FateLedger() : nil)
        let version = options.profile.firstVersion
        let pair = try templates.pair(plan.policies, version: version)
        try pair.zone.fill(SimulatedServer.fileName, in: storage)
        server = try SimulatedServer(storage, schema: pair.schema, limits: plan.serverLimits, version: version)
        journal?.policies = plan.policies
        journal?.limits = plan.serverLimits
        server.journal = journal
        try recorder.began(server)
        for number in 1...plan.deviceCount {
            let virtual = VirtualEnvironment(seed: options.seed &* 1_000 &+ UInt64(number))
            try pair.device.fill("device-\(number)", in: storage) { db in
                try db.cachedStatement(sql: "UPDATE tidemark_device SET device = ?").execute(arguments: [
                    virtual.newID().uuidString.lowercased()
                ])
            }
            try add(number, virtual)
        }
        clients = (0..<plan.clientCount).map { index in
            RestClient(number: index + 1, seed: options.seed &* 1_000 &+ UInt64(500 + index))
        }
    }

    /// Adds a device with an existing file: made by a join, or a copy of another device's.
    func add(_ number: Int, _ virtual: VirtualEnvironment, copyOf original: SimulatedDevice? = nil) throws {
        var limits = plan.deviceLimits
        // Each store lends ids of its own, so a journal for the other one has none.
        if server.journal != nil { limits.lendsIDs = false }
        let device = try SimulatedDevice(number: number, in: storage, virtual, limits: limits, version: server.version)
        devices.append(device)
        guard let original else { return try recorder.joined(device) }
        try recorder.copied(original, as: device.name)
        try recorder.replaced(device, by: device.name)
        try recorder.stepped(device, "begin")
    }

    /// Ends the world, and leaves its files to the next one.
    func end() throws {
        try storage.giveBack(SimulatedServer.fileName, server.database)
        for device in devices { try device.end() }
        for backup in backups { try storage.remove(backup.name) }
    }

    // MARK: The loop

    /// Runs the planned number of rounds.
    func live() throws {
        schedule(.act, after: 0)
        while counters[.rounds] < options.rounds, let (time, event) = heap.pop() { try handle(event, at: time) }
    }

    /// Runs all events on their way, and begins no new ones.
    func drain() throws {
        while let (time, event) = heap.pop() {
            if case .act = event { continue }
            try handle(event, at: time)
        }
    }

    private func handle(_ event: Event, at time: Int64) throws {
        now = time
        recorder.now = time
        for device in devices { device.virtual.advance(to: time) }
        if options.profile.decides { server.wall = SimulatedServer.now + time / 1_000 }
        do { if try happen(event) { counters[.rounds] += 1 } } catch let failure as DiskFailed {
            counters[.rounds] += 1
            counters[.diskFaults] += 1
            note("\(self[failure.device].name) has a disk that fails")
            try crash(self[failure.device])
        }
    }

    private func happen(_ event: Event) throws -> Bool {
        switch event {
        case .act: return try act()
        case .arrive(let message): return try arrive(message)
        case .answer(let message, let answer): return try answered(message, answer)
        case .hear(let device, let connection, let hint):
            return try hear(hint, device: self[device], connection: connection)
        case .advance(let device, let process, let life):
            guard self[device].processes[process].life == life else { return false }
            return try advance(self[device], process)
        case .begin(let number):
            guard !self[number].isUp else { return false }
            note("\(self[number].name) begins again")
            self[number].isUp = true
            try self[number].begin()
            try recorder.take(.reopened(actor: self[number].name))
            try recorder.stepped(self[number], "begin")
            return true
        case .serve:
            guard !server.isUp else { return false }
            note("server begins again")
            server.isUp = true
            try recorder.take(.reopened(actor: "server"))
            return true
        case .rest(let call, let step): return try take(step, of: call)
        }
    }

    private func act() throws -> Bool {
        guard decisions.begin(.act) else { return false }
        let action = actions[drawWeighted(plan.weights)]
        // The next one is drawn first, so that a shortened list of decisions keeps its pace.
        schedule(.act, after: drawDelay(3_000_000))
        return try action.perform(in: self)
    }

    /// Adds an event.
    func schedule(_ event: Event, after delay: Int64) { heap.push(event, at: now + delay, tie: Int(trace.hash & 0xFF)) }

    /// Ends the process of a device, and starts it again later.
    func crash(_ device: SimulatedDevice) throws {
        counters[.deviceCrashes] += 1
        note("\(device.name) crashes")
        try recorder.take(.crashed(actor: device.name))
        let opensAnew = plan.drawsNewConnection(&decisions)
        try device.crash(opensAnew: opensAnew) { decisions.decide($0) }
        recorder.crashed(device)
        device.isUp = false
        schedule(.begin(device: device.number), after: drawDelay(20_000_000))
    }

    /// Draws whether a call to the device's disk fails in its next step, and the call.
    func drawDiskFault(_ device: SimulatedDevice) {
        guard plan.diskFaults > 0, !isHealed, decisions.chance(plan.diskFaults) else { return }
        device.nextFault = (call: 1 + decisions.decide(40), isPower: decisions.chance(50))
    }

    // MARK: Drawing

    /// A device, whether its process runs or not.
    func device() -> SimulatedDevice? { devices[decisions.decide(devices.count)] }

    /// A device whose process runs.
    func runningDevice() -> SimulatedDevice? {
        let running = devices.filter(\.isUp)
        return running.isEmpty ? nil : running[decisions.decide(running.count)]
    }

    /// The device with a number.
    subscript(number: Int) -> SimulatedDevice { devices[number - 1] }

    /// A time of up to `longest` microseconds.
    func drawDelay(_ longest: Int) -> Int64 { Int64(1 + decisions.decide(longest)) }

    /// An index, drawn by its weight.
    func drawWeighted(_ weights: [Int]) -> Int {
        var rest = decisions.decide(max(1, weights.reduce(0, +)))
        for (index, weight) in weights.enumerated() {
            rest -= weight
            if rest < 0 { return index }
        }
        return 0
    }

    /// Adds an event to the trace.
    func note(_ text: String, _ more: @autoclosure () -> String = "") { trace.note(now, text: text, more: more()) }
}
