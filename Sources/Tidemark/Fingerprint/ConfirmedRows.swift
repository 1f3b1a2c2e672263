import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// The fingerprint of the confirmed rows: the tables without pending changes.
///
/// The device stores it in `tidemark_device`. Each answer updates it by the difference of the written rows. This does
/// not detect a cell that changes without a trigger. So the device also computes it from all rows: at every sync if
/// there are few rows, else after a pause in proportion to the file's size, and on request.
struct ConfirmedRows {
    let db: Database
    let file: DeviceFile
    /// The stored fingerprint; nil if it covers other columns, tables differ from the zone's, or rebuilt ones wait.
    var expectedFingerprint: Fingerprint? { file.rebuilt == nil ? servedFingerprint : nil }

    /// The fingerprint of the server's rows at the file's revision, which rebuilt tables may not have.
    var servedFingerprint: Fingerprint? {
        file.tables.isZones && file.fingerprintShape == layoutHash ? file.fingerprint : nil
    }

    /// Whether the confirmed rows can have the server's fingerprint.
    var isComparable: Bool { file.tables.isZones && file.rebuilt == nil }

    /// Computes it from all rows, after a drain; nil if a base has other columns than its table.
    func computeFingerprint() throws -> Fingerprint? {
        guard isComparable, try file.fingerprintShape == layoutHash || !hasWaitingRecords else { return nil }
        let rows = RowFingerprints(db, schema: file.schema)
        return try rows.all() - rows.outboxDifference()
    }

    /// Runs `body` while the tables hold only confirmed rows, then rolls back; in a transaction without foreign keys.
    func withConfirmedRows<Output>(_ body: () throws -> Output) throws -> Output {
        var result: Output?
        try db.inSavepoint {
            try DeviceFile.whileApplying(db) {
                try PendingChanges(db: db, schema: file.schema).rewind()
                result = try body()
            }
            return .rollback
        }
        guard let result else { throw TidemarkError.unreadable("The file") }
        return result
    }

    /// Returns the fingerprint to send; verifies it if a check is due, and throws `fingerprintMismatch`.
    func verifyFingerprint(_ limits: Limits, now: Date) throws -> Fingerprint? {
        guard isComparable else { return nil }
        if planted(PlantedBug.believesItsBooks) { return expectedFingerprint }
        guard try expectedFingerprint == nil || isDue(limits, now: now) else { return expectedFingerprint }
        guard let fingerprint = try computeFingerprint() else { return nil }
        guard expectedFingerprint == nil || expectedFingerprint == fingerprint else {
            throw TidemarkError(
                .fingerprintMismatch, "Rows of this file differ from the rows that the server confirmed.",
                fix: "The next sync finds and repairs them; `tidemark verify` shows which.")
        }
        try store(fingerprint)
        // A first fingerprint may contain edits that no trigger captured, until the server has the same one.
        if expectedFingerprint == nil {
            try requireCheck()
        } else if file.checked != nil {
            try recordCheck(now)
        }
        return fingerprint
    }

    func store(_ fingerprint: Fingerprint?) throws {
        try db.execute(
            cached: """
                UPDATE tidemark_device SET fingerprint = ?1, fingerprint_shape = ?2
                WHERE fingerprint IS NOT ?1 OR fingerprint_shape IS NOT ?2
                """, arguments: [fingerprint?.hex, layoutHash])
    }

    /// Stores the time of a check of all rows, to the minute.
    func recordCheck(_ now: Date) throws {
        try db.execute(
            cached: "UPDATE tidemark_device SET checked = ?1 WHERE checked IS NULL OR abs(?1 - checked) >= 60",
            arguments: [Int64(now.timeIntervalSince1970)])
    }

    /// Requires a check of all rows at the next sync; they count as unconfirmed until the server has the fingerprint.
    func requireCheck() throws { try db.execute(cached: "UPDATE tidemark_device SET checked = NULL") }

    /// Identifies the columns and order that row fingerprints cover.
    private var layoutHash: String { ContentHash.of(file.schema.shape) }

    private var hasWaitingRecords: Bool {
        get throws { try Bool.fetchOne(db, cached: "SELECT EXISTS (SELECT 1 FROM tidemark_base)") ?? false }
    }

    private func isDue(_ limits: Limits, now: Date) throws -> Bool {
        var remainingRows = limits.fingerprintRowsMax
        for table in file.schema.tables {
            guard remainingRows >= 0 else { break }
            remainingRows -=
                try Int.fetchOne(
                    db,
                    cached: """
                        SELECT count(*) FROM (
                            SELECT 1 FROM main.\(SQLText.name(table.name)) LIMIT ?)
                        """, arguments: [remainingRows + 1]) ?? 0
        }
        guard remainingRows < 0, let lastCheck = file.checked else { return true }
        // The age is negative after a clock was set back; then the check is due as well.
        let age = Int64(now.timeIntervalSince1970) - lastCheck
        return try age < 0 || age >= pause(limits)
    }

    /// Returns the pause between two checks, in seconds: a larger file takes longer to check.
    private func pause(_ limits: Limits) throws -> Int64 {
        let bytes = try Int64.fetchOne(
            db, cached: "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
        let pause = (bytes ?? 0) / Int64(limits.fingerprintBytesPerSecond)
        return min(max(pause, 60), Int64(limits.fingerprintIntervalSeconds))
    }
}
