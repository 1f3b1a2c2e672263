import Foundation
import GRDB
import TidemarkCore
import TidemarkSQLite

/// The fingerprint of the rows that the server has confirmed: those in the tables, with the records
/// that have waiting edits as they were before.
///
/// It is kept in `tidemark_device` and carried forward by each answer, from the rows before and
/// after writing. That alone would not notice a cell that changes behind the triggers' back, so it
/// is computed from the rows as well: at every sync while there are few of them, else after
/// ``TidemarkCore/Limits/fingerprintIntervalSeconds``, and whenever somebody asks.
struct ConfirmedRows {
    let db: Database
    let file: DeviceFile

    /// The fingerprint that the confirmed rows should have; nil when nobody knows.
    ///
    /// One that was taken with other columns says nothing, and so does any while this file's tables
    /// are others than the zone's, or hold rows that a migration wrote and nobody has looked at.
    var expected: Fingerprint? { isComparable && file.fingerprintShape == shape ? file.fingerprint : nil }

    /// Whether the rows here can have the fingerprint of the server's.
    var isComparable: Bool { file.tables.isZones && file.rebuilt == nil }

    /// The fingerprint that the confirmed rows have, computed from all of them.
    ///
    /// Everything captured must have been drained; nil while a waiting edit remembers a record with
    /// other columns than the table has now.
    func computed() throws -> Fingerprint? {
        guard isComparable, try file.fingerprintShape == shape || !hasWaitingRecords else { return nil }
        let rows = RowFingerprints(db, schema: file.schema)
        return try rows.all() - rows.pending()
    }

    /// Runs `body` while the tables hold the confirmed rows alone, and then puts everything back.
    ///
    /// The caller is in a transaction without foreign keys.
    func whileAlone<Result>(_ body: () throws -> Result) throws -> Result? {
        var result: Result?
        try db.inSavepoint {
            try StagingTables.clear(in: db)
            try DeviceFile.whileApplying(db) {
                try PendingChanges(db: db, schema: file.schema).rewind()
                result = try body()
            }
            return .rollback
        }
        return result
    }

    /// The fingerprint to send, checked against the rows when that is due.
    ///
    /// - Throws: `fingerprintMismatch` when the rows are not what the server confirmed.
    func checked(_ limits: Limits, now: Date) throws -> Fingerprint? {
        guard isComparable else { return nil }
        if planted(PlantedBug.believesItsBooks) { return expected }
        guard try expected == nil || isDue(limits, now: now) else { return expected }
        guard let computed = try computed() else { return nil }
        guard expected == nil || expected == computed else {
            throw TidemarkError(
                .fingerprintMismatch,
                "Rows of this file are not as the server confirmed them.",
                fix: "The next sync finds and repairs them; `tidemark verify` shows which."
            )
        }
        try keep(computed)
        try noteCheck(now)
        return computed
    }

    /// Notes what the confirmed rows have become.
    func keep(_ fingerprint: Fingerprint?) throws {
        try db.cachedStatement(
            sql: """
                UPDATE tidemark_device SET fingerprint = ?1, fingerprint_shape = ?2
                WHERE fingerprint IS NOT ?1 OR fingerprint_shape IS NOT ?2
                """
        ).execute(arguments: [fingerprint?.hex, shape])
    }

    /// Notes that all rows were looked at, to the minute.
    func noteCheck(_ now: Date) throws {
        try db.cachedStatement(
            sql: """
                UPDATE tidemark_device SET checked = ?1
                WHERE checked IS NULL OR abs(?1 - checked) >= 60
                """
        ).execute(arguments: [Int64(now.timeIntervalSince1970)])
    }

    /// Has the next sync look at all rows, since some were found to be wrong.
    func requireCheck() throws { try db.cachedStatement(sql: "UPDATE tidemark_device SET checked = NULL").execute() }

    // MARK: Private

    private var shape: String { ContentHash.of(file.schema.shape) }

    private var hasWaitingRecords: Bool {
        get throws {
            try Bool.fetchOne(db.cachedStatement(sql: "SELECT EXISTS (SELECT 1 FROM tidemark_base)")) ?? false
        }
    }

    private func isDue(_ limits: Limits, now: Date) throws -> Bool {
        var left = limits.fingerprintRowsMax
        for table in file.schema.tables {
            guard left >= 0 else { break }
            left -=
                try Int.fetchOne(
                    db.cachedStatement(
                        sql: """
                            SELECT count(*) FROM (
                                SELECT 1 FROM main.\(SQLText.name(table.name)) LIMIT ?)
                            """
                    ),
                    arguments: [left + 1]
                ) ?? 0
        }
        guard left < 0, let checked = file.checked else { return true }
        // A clock that was set back must not put the check off for ever.
        let age = Int64(now.timeIntervalSince1970) - checked
        return age < 0 || age >= Int64(limits.fingerprintIntervalSeconds)
    }
}
