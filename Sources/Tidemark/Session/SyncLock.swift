import Foundation
import GRDB
import TidemarkCore
import TidemarkSQLite

/// The row that says who syncs a file, so that two processes do not do the same work twice.
///
/// It saves work and noise; nothing rests on it, because an answer to an older state of the file is
/// not taken in, nor a snapshot for one. A lock is free when its time is over, when its process has
/// ended, or when its time lies so far ahead that a clock must have been wrong.
struct SyncLock: Sendable {
    private let owner: String
    private let environment: SyncEngine.Environment

    /// How long a step may take before others may begin, in seconds; as long as a file arrives, the
    /// lease is renewed.
    static let lease: TimeInterval = 60

    /// Makes a lock with an owner of its own.
    init(_ environment: SyncEngine.Environment) {
        owner = environment.newID().uuidString.lowercased()
        self.environment = environment
    }

    /// Takes the lock, or keeps it for longer, inside a transaction of the caller's.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` with `syncInProgress` when somebody else has it.
    func take(_ db: Database) throws {
        try refuseOthers(db)
        try db.cachedStatement(sql: "INSERT OR REPLACE INTO tidemark_lock VALUES (1, ?, ?, ?)").execute(arguments: [
            owner, environment.process, until,
        ])
    }

    /// Keeps the lock for longer, if it is still this owner's.
    func renew(_ db: Database) throws {
        try db.cachedStatement(sql: "UPDATE tidemark_lock SET until = ? WHERE owner = ?").execute(arguments: [
            until, owner,
        ])
    }

    /// Looks whether somebody else syncs, and writes nothing.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` with `syncInProgress` when somebody does.
    func refuseOthers(_ db: Database) throws {
        let now = environment.now()
        if let row = try Row.fetchOne(db.cachedStatement(sql: "SELECT owner, process, until FROM tidemark_lock")),
            try row.value("owner") as String != owner
        {
            let process = try row.value("process") as Int32
            let until = try Self.date(row.value("until"))
            let rest = until.timeIntervalSince(now)
            if rest > 0, rest <= Self.lease * 2, environment.isRunning(process) {
                throw TidemarkError(
                    .syncInProgress,
                    "Process \(process) is syncing this file, until \(Timestamp.text(until)) at the latest.",
                    fix: "Wait for it; what was edited here goes along with its next round."
                )
            }
        }
    }

    /// Frees the lock, if it is this owner's.
    func release(_ db: Database) throws {
        try db.cachedStatement(sql: "DELETE FROM tidemark_lock WHERE owner = ?").execute(arguments: [owner])
    }

    /// When a lease that begins now is over.
    private var until: Int64 { Self.milliseconds(environment.now().addingTimeInterval(Self.lease)) }

    private static func milliseconds(_ date: Date) -> Int64 { Int64((date.timeIntervalSince1970 * 1_000).rounded()) }

    private static func date(_ milliseconds: Int64) -> Date {
        Date(timeIntervalSince1970: Double(milliseconds) / 1_000)
    }
}
