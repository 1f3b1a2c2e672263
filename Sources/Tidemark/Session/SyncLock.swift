import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// The lease on a file, so that two processes do not do the same work twice.
///
/// Correctness does not depend on it, because the device rejects answers and snapshots for an older
/// state of the file. The lock is free if its lease is over, if its process has ended, or if the lease
/// ends so far in the future that a clock must have been wrong.
struct SyncLock: Sendable {
    private let owner: String
    private let environment: SyncEngine.Environment
    /// The length of a lease in seconds; the device renews it while a snapshot arrives.
    static let lease: TimeInterval = 60

    init(_ environment: SyncEngine.Environment) {
        owner = environment.newID().uuidString.lowercased()
        self.environment = environment
    }

    /// Takes or renews the lock, in the caller's transaction; throws `syncInProgress` if another owner has it.
    func take(_ db: Database) throws {
        try refuseOthers(db)
        try db.execute(
            cached: "INSERT OR REPLACE INTO tidemark_lock VALUES (1, ?, ?, ?)",
            arguments: [owner, environment.process, until])
    }

    /// Renews the lock if this owner still has it.
    func renew(_ db: Database) throws {
        try db.execute(cached: "UPDATE tidemark_lock SET until = ? WHERE owner = ?", arguments: [until, owner])
    }

    /// Throws `syncInProgress` if another owner has the lock, and writes nothing.
    func refuseOthers(_ db: Database) throws {
        let now = environment.now()
        if let row = try Row.fetchOne(db, cached: "SELECT owner, process, until FROM tidemark_lock"),
            try row.value("owner") as String != owner
        {
            let process = try row.value("process") as Int32
            let until = Date(timeIntervalSince1970: Double(try row.value("until") as Int64) / 1_000)
            let rest = until.timeIntervalSince(now)
            if rest > 0, rest <= Self.lease * 2, environment.isRunning(process) {
                throw TidemarkError(
                    .syncInProgress,
                    "Process \(process) is syncing this file, until \(Timestamp.text(until)) at the latest.",
                    fix: "Wait for it; its next round sends the edits made here.")
            }
        }
    }

    func release(_ db: Database) throws {
        try db.execute(cached: "DELETE FROM tidemark_lock WHERE owner = ?", arguments: [owner])
    }

    private var until: Int64 { Timestamp.milliseconds(environment.now().addingTimeInterval(Self.lease)) }
}
