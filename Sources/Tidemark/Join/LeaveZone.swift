import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// Takes a zone out of a device's file, because its user is no longer a member.
///
/// 1. All captured changes become change sets.
/// 2. The device parks every change set as a conflict with the rule `forbidden`, also the sent ones:
///    nobody can ask for their verdicts any more. Base and mine stay, for an export or a retry.
/// 3. The zone's rows leave the tables.
/// 4. The file is as before its first snapshot. If the user is invited again, the next sync brings one.
///
/// All of it is one transaction, so a crash leaves the file before or after it, and the next refusal
/// finishes the work. Values that only this device has are never removed: a column that the zone lacks
/// is parked as well, and rows stay if they hold edits that no trigger captured.
struct LeaveZone {
    let db: Database
    /// The frozen change sets that the server certainly did not apply.
    let neverSent: Set<String>
    let moment: Moment

    /// Runs the transaction; the caller must not be in one.
    func leave() throws -> [DeviceEvent] {
        try Transaction.withoutForeignKeys(db) {
            let round = try RoundContext(db, at: moment)
            let file = round.file
            try round.drainWithUnsentRows()
            let mayHideEdits = try mayHideEdits(file)
            var events = try round.rebase { try parkOutbox() }
            try DeviceFile.whileApplying(db) {
                guard !mayHideEdits else { return }
                events += try parkOwnColumns(file.schema)
                for table in file.schema.tables.reversed() {
                    try db.execute(sql: "DELETE FROM main.\(SQLText.name(table.name))")
                }
            }
            if !mayHideEdits { try forgetHistory() }
            events.append(.accessEnded(zone: file.zone, isEmptied: !mayHideEdits))
            return events
        }
    }

    /// Whether rows may hold edits that no trigger captured, which only a comparison with the server could find.
    private func mayHideEdits(_ file: DeviceFile) throws -> Bool {
        guard file.rebuilt == nil else { return true }
        let confirmed = ConfirmedRows(db: db, file: file)
        guard let expected = confirmed.expectedFingerprint else { return false }
        return try confirmed.computeFingerprint() != expected
    }

    private func parkOutbox() throws -> [DeviceEvent] {
        try runPlanted(PlantedBug.dropsOutboxOnRevoke, in: db)
        let rows = try Row.fetchAll(db, sql: "SELECT id, wire IS NOT NULL AS is_sent FROM tidemark_changeset")
        let reasons = try rows.map { row in
            let id: String = try row.value("id")
            let isSent = try row.value("is_sent") && !neverSent.contains(id)
            return (id, "[\((isSent ? Conflict.Reason.sentBeforeLeaving : .forbidden).json)]")
        }
        return try ParkConflict(db: db, now: moment.time).parkUnsent(
            Dictionary(reasons, uniquingKeysWith: { first, _ in first }))
    }

    private func parkOwnColumns(_ schema: SyncSchema) throws -> [DeviceEvent] {
        let id = moment.newID().uuidString.lowercased()
        var count = 0
        for table in schema.tables {
            let own = schema.difference.unservedColumns[table.name, default: []].map(\.name)
            guard !own.isEmpty else { continue }
            let isSet = own.map { "app_row.\(SQLText.name($0)) IS NOT NULL" }.joined(separator: " OR ")
            try db.execute(
                sql: """
                    INSERT INTO tidemark_conflict_record (id, tbl, key, operation, base, mine)
                    SELECT ?, ?, \(RowJSON.key(table, alias: "app_row.")), 'update',
                        \(RowJSON.object(table.valueColumns.map(\.name), prefix: "app_row.")),
                        \(RowJSON.object(own, prefix: "app_row."))
                    FROM main.\(SQLText.name(table.name)) AS app_row
                    WHERE \(isSet)
                    """, arguments: [id, table.name])
            count += db.changesCount
        }
        guard count > 0 else { return [] }
        try db.execute(
            sql: "INSERT INTO tidemark_conflict (id, parked, reasons) VALUES (?, ?, ?)",
            arguments: [id, moment.time, "[\(Conflict.Reason.forbidden.json)]"])
        return [.conflict(id)]
    }

    private func forgetHistory() throws {
        try db.execute(
            sql: """
                DELETE FROM tidemark_base;
                DELETE FROM tidemark_unknown;
                DELETE FROM tidemark_kept_record;
                DELETE FROM tidemark_kept;
                UPDATE tidemark_state SET revision = 0;
                UPDATE tidemark_device
                SET epoch = NULL, stale = 0, rebuilt = NULL, fingerprint = NULL, fingerprint_shape = NULL,
                    checked = NULL, overruled = 0;
                """)
    }
}

extension Conflict.Reason {
    /// The rule of change sets whose author may not write.
    static let forbiddenRule = "forbidden"

    static let forbidden = Self(
        table: "", key: nil, columns: [], rule: forbiddenRule,
        message: "Your access to the zone ended before this was sent.")

    static let sentBeforeLeaving = Self(
        table: "", key: nil, columns: [], rule: forbiddenRule,
        message: "Your access to the zone ended before the server's verdict arrived; the server may have applied this.")
}
