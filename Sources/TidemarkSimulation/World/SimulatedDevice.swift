import Foundation
import GRDB
import Tidemark
import TidemarkCore
import TidemarkSQL

/// A device: the real core on a real database, driven by the world instead of an async shell.
final class SimulatedDevice {
    /// A process that has the file open: the app, or another one that syncs it.
    struct Process {
        /// The ends of the app's transactions; another process knows none.
        var commits: CommitObserver?
        /// The sync that is under way.
        var round: SyncRound?
        /// The request that it waits for: its number and its content.
        var exchange: (number: Int, outgoing: DeviceCore.Outgoing)?
        /// Counts the syncs and crashes, so that messages for an earlier one are recognised.
        var life = 0
    }

    let number: Int
    let storage: any SimulatedStorage
    let virtual: VirtualEnvironment
    private let limits: Limits
    private(set) var database: DatabaseQueue
    var processes = [Process(), Process()]
    /// The version of its tables.
    var version: Int
    /// The version that it joined with.
    let firstVersion: Int
    /// Whether its process runs.
    var isUp = true
    /// Whether messages get through.
    var isReachable = true
    /// The number of the app's starts.
    private(set) var starts = 0
    /// The app's latest news of the zone that no sync has looked at.
    var hint: Hint?

    /// The call to the disk that fails in the next step.
    var nextFault: (call: Int, isPower: Bool)?

    static let app = 0

    var name: String { "device \(number)" }
    var fileName: String { "device-\(number)" }

    /// Opens a file that has joined the zone.
    init(number: Int, in storage: any SimulatedStorage, _ virtual: VirtualEnvironment, limits: Limits, version: Int)
        throws
    {
        self.number = number
        self.storage = storage
        self.virtual = virtual
        self.version = version
        firstVersion = version
        self.limits = limits
        database = try storage.open("device-\(number)")
        try begin()
    }

    // MARK: Files and processes

    /// Does something with the file, outside a transaction.
    func access<Result>(_ body: (Database) throws -> Result) throws -> Result {
        try database.writeWithoutTransaction(body)
    }

    /// Handles the end of the app's process: its memory is gone, and the file stays.
    func crash(opensAnew: Bool, decide: (Int) -> Int) throws {
        for index in processes.indices {
            processes[index].round = nil
            processes[index].exchange = nil
            processes[index].life += 1
        }
        if let commits = processes[Self.app].commits { database.remove(transactionObserver: commits) }
        processes[Self.app].commits = nil
        hint = nil
        guard opensAnew || storage.forgets else { return }
        try database.close()
        try storage.crash(fileName, decide: decide)
        database = try storage.open(fileName)
    }

    /// Starts the app's process, as the initialiser of `SyncEngine` does.
    func begin() throws {
        starts += 1
        try prepare()
        let commits = CommitObserver()
        database.add(transactionObserver: commits, extent: .observerLifetime)
        processes[Self.app].commits = commits
    }

    /// Fits the file to the app's present tables.
    func prepare() throws {
        try access { db in
            try ConnectionFlag.foreignKeys.set(false, in: db)
            try db.inTransaction(.immediate) {
                try PrepareDevice(db: db).prepare(
                    server: "simulation", zone: "main", renames: Migrations.renames(version), now: virtual.now,
                    newID: virtual.newID)
                return .commit
            }
            try ConnectionFlag.foreignKeys.set(true, in: db)
        }
    }

    /// Ends the world.
    func end() throws {
        if let commits = processes[Self.app].commits { database.remove(transactionObserver: commits) }
        try storage.giveBack(fileName, database)
    }

    // MARK: Writing

    /// Runs a transaction of the app, with an end that the engine notices.
    func write(_ body: (Database) throws -> Void) throws {
        try access { db in
            try db.inTransaction(.immediate) {
                try body(db)
                return .commit
            }
        }
    }

    /// Runs a transaction of another program.
    func writeOutside(_ body: (Database) throws -> Void) throws {
        let commits = processes[Self.app].commits
        if let commits { database.remove(transactionObserver: commits) }
        defer { if let commits { database.add(transactionObserver: commits, extent: .observerLifetime) } }
        try write(body)
    }

    /// Runs a migration of the app, which the engine does not see end.
    func alter(_ body: (Database) throws -> Void) throws {
        try access { try ConnectionFlag.foreignKeys.set(false, in: $0) }
        try writeOutside(body)
        try access { try ConnectionFlag.foreignKeys.set(true, in: $0) }
    }

    // MARK: Syncing

    /// Begins a sync in one of the processes.
    func startRound(_ process: Int) {
        let commits = processes[process].commits
        processes[process].life += 1
        processes[process].exchange = nil
        processes[process].round = SyncRound(
            limits: limits, environment: virtual.environment, pushedChange: process == Self.app ? hint?.change : nil
        ) { commits?.takeBoundaries() ?? [] }
        if process == Self.app { hint = nil }
    }

    /// Ends the sync of a process.
    func endRound(_ process: Int) {
        processes[process].round = nil
        processes[process].exchange = nil
        processes[process].life += 1
    }

    /// Runs a step of the machine.
    func step<Result>(_ process: Int, _ body: (inout SyncRound, Database) throws -> Result) throws -> Result? {
        guard var round = processes[process].round else { return nil }
        if let nextFault { storage.fail(fileName, call: nextFault.call, isPower: nextFault.isPower) }
        let outcome = Result2 { try access { try body(&round, $0) } }
        if let fault = nextFault {
            nextFault = nil
            let hasFailed = storage.heal(fileName)
            // Without power, the step may have taken effect unnoticed.
            if hasFailed, fault.isPower || outcome.isFailure { throw DiskFailed(device: number) }
        }
        let result = try outcome.get()
        processes[process].round = round
        return result
    }
}

/// The error of a step in which a call to a device's disk failed.
struct DiskFailed: Error { let device: Int }

/// `Swift.Result` under a name that a generic parameter does not shadow.
private typealias Result2<Success> = Result<Success, any Error>

extension Result {
    fileprivate var isFailure: Bool {
        if case .failure = self { return true }
        return false
    }
}
