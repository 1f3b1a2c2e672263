import Foundation
import GRDB
import TidemarkCore
import TidemarkSQLite

/// What was copied from a damaged file, held against what Tidemark writes.
struct RescuedContent {
    let db: Database

    /// The error of something that cannot be taken over.
    static func damaged(_ what: String, because reason: String? = nil) -> TidemarkError {
        TidemarkError(
            .fileDamaged,
            "What waits in the file cannot be read either: \(what)\(reason.map { " (\($0))" } ?? "").",
            fix: "Keep the file. RECOVERY.md says under \"A device's file is damaged\" what else can be tried."
        )
    }

    /// Checks that the outbox has the form that a device gives it, and all its parts.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` that names what is missing.
    func check(schema: SyncSchema) throws {
        let orphans = "NOT IN (SELECT seq FROM tidemark_changeset)"
        // One that was not sent yet may have become empty.
        try refuse(
            "the records of a change set that was sent",
            """
            SELECT id FROM tidemark_changeset WHERE wire IS NOT NULL
                AND seq NOT IN (SELECT seq FROM tidemark_outbox)
            """
        )
        try refuse(
            "a record of a change set that is lost",
            "SELECT tbl || ' ' || key FROM tidemark_outbox WHERE seq \(orphans)"
        )
        try refuse("a piece of a change set that is lost", "SELECT number FROM tidemark_wire_rest WHERE seq \(orphans)")
        try refuse("an id", "SELECT id FROM tidemark_changeset WHERE NOT \(Self.isID("id"))")
        try refuse(
            "a change set as it was sent",
            """
            SELECT id FROM tidemark_changeset AS c WHERE wire IS NOT NULL AND NOT EXISTS (
                SELECT 1 FROM tidemark_wire_rest AS r WHERE r.seq = c.seq)
                AND NOT iif(json_valid(wire), wire ->> '$.id' IS id, 0)
            """
        )
        try refuse(
            "a change",
            """
            SELECT tbl || ' ' || key FROM tidemark_outbox
            WHERE operation NOT IN ('create', 'update', 'delete') OR typeof(base) <> 'integer'
                OR before IS NOT NULL AND NOT json_valid(before)
                OR attributes IS NOT NULL AND NOT json_valid(attributes)
            """
        )
        try refuse(
            "a conflict",
            "SELECT id FROM tidemark_conflict WHERE NOT json_valid(reasons) OR NOT json_valid(after)"
        )
        for table in schema.tables {
            let shadow = SQLText.name(CaptureTables.shadow(table))
            try refuse(
                "a captured change of the table \(table.name)",
                "SELECT seq FROM \(shadow) WHERE seq NOT IN (SELECT seq FROM tidemark_capture)"
            )
            try refuse(
                "a captured change of the table \(table.name)",
                """
                SELECT seq FROM tidemark_capture WHERE tbl = \(SQLText.literal(table.name))
                    AND seq NOT IN (SELECT seq FROM \(shadow))
                """
            )
        }
    }

    /// Whether a column holds a UUID as text, as SQL.
    static func isID(_ column: String) -> String {
        "(typeof(\(column)) = 'text' AND length(\(column)) = 36 AND \(column) NOT GLOB '*[^0-9a-f-]*')"
    }

    private func refuse(_ what: String, _ sql: String) throws {
        guard let row = try Row.fetchOne(db, sql: sql + " LIMIT 1") else { return }
        let name = row.databaseValues.first.map { "\($0)" } ?? ""
        throw Self.damaged("\(what) (\(name))")
    }

    /// Names the records that wait; their bases are made from the new file's rows, or from what the
    /// changes themselves have kept.
    func nameBases() throws {
        try db.execute(sql: "DELETE FROM tidemark_base")
        try db.execute(
            sql: """
                INSERT INTO tidemark_base (tbl, key, image)
                SELECT tbl, key, before FROM (
                    SELECT tbl, key, before, min(seq) FROM tidemark_outbox GROUP BY tbl, key)
                """
        )
    }

    /// Reads all that a sync, a status and a list of conflicts read, and makes a request, which is
    /// undone again.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` when the file cannot be synced.
    func proveUsable(limits: Limits, now: Date, newID: () -> UUID) throws {
        _ = try DeviceStatus(db)
        _ = try Conflict.all(db)
        do {
            try db.inTransaction(.immediate) {
                let request = try DeviceCore(limits: limits).prepareRequest(
                    db,
                    boundaries: [],
                    changeSetsMax: limits.changeSetsPerRequestMax,
                    checksRows: true,
                    now: now,
                    newID: newID
                )
                try checkForm(of: request.body, limits)
                return .rollback
            }
        } catch let error as TidemarkError where error.recovery != .permanent {
            // Another history: the next sync asks about it first.
            return
        } catch let error as TidemarkError where error.code == .serverBehind {
            // The next sync parks what is about a table that the zone has dropped.
            return
        }
    }
}

extension RescuedContent {
    /// A damaged character may have made the request no JSON, which no server takes.
    private func checkForm(of body: [UInt8], _ limits: Limits) throws {
        let text = String(decoding: body, as: UTF8.self)
        do { _ = try JSONScan(body, limits: limits) } catch {
            throw Self.damaged("the text of what is sent", because: error.message)
        }
        let isJSON = try Bool.fetchOne(db, sql: "SELECT json_valid(?)", arguments: [text])
        guard isJSON == true else { throw Self.damaged("the text of what is sent") }
    }
}

/// Who a rescued device is: the same as the damaged file, and it goes on counting there.
struct RescuedIdentity {
    let db: Database

    /// Takes the identity over; what is damaged of it and can be done without is left out.
    ///
    /// - Parameter counters: The tables of counters that can be read and were set aside.
    /// - Returns: The history that the damaged file is in; nil before its first snapshot.
    /// - Throws: ``TidemarkCore/TidemarkError`` when the file does not say who the device is.
    func take(counters: Set<String>) throws -> String? {
        let identity = try Row.fetchOne(
            db,
            sql: """
                SELECT device, epoch, time, overruled, lap, open_laps,
                    \(RescuedContent.isID("device")) AND server IS NOT NULL
                        AND (epoch IS NULL OR \(RescuedContent.isID("epoch"))) AS sound
                FROM damaged.tidemark_device
                """
        )
        guard let identity, try identity.value("sound") as Bool? == true else {
            throw RescuedContent.damaged("who the device is")
        }
        // The snapshot's rows have been seen, too.
        let clock = try DeviceClock.read(db)
        try db.execute(
            sql: """
                UPDATE tidemark_device SET device = d.device,
                    time = iif(typeof(d.time) = 'integer' AND d.time BETWEEN 0 AND ?1, d.time, 0),
                    overruled = iif(typeof(d.overruled) = 'integer' AND d.overruled BETWEEN 0 AND ?1,
                        d.overruled, 0)
                FROM damaged.tidemark_device AS d
                """,
            arguments: [TemporaryID.reservedMax]
        )
        try takeLaps()
        try DeviceClock.store(clock, in: db)
        try takeCounters(counters)
        return try identity.value("epoch")
    }

    /// The exchanges with the server; without them it takes the file for an older copy, asks what
    /// became of what waits and gives it a new identity.
    private func takeLaps() throws {
        try db.execute(
            sql: """
                UPDATE tidemark_device SET lap = d.lap, open_laps = d.open_laps
                FROM damaged.tidemark_device AS d
                WHERE (d.lap IS NULL OR \(RescuedContent.isID("d.lap")))
                    AND iif(json_valid(d.open_laps), json_type(d.open_laps) = 'array'
                        AND NOT EXISTS (SELECT 1 FROM json_each(d.open_laps) AS j
                            WHERE NOT \(RescuedContent.isID("j.value"))), 0)
                """
        )
    }

    /// The counters of ids, which also lie beyond every id that waits.
    private func takeCounters(_ readable: Set<String>) throws {
        if readable.contains("sqlite_sequence") {
            try db.execute(
                sql: """
                    UPDATE sqlite_sequence SET seq = max(sqlite_sequence.seq, d.seq)
                    FROM temp.rescued_sqlite_sequence AS d WHERE d.name = sqlite_sequence.name
                        AND typeof(d.seq) = 'integer'
                        AND d.seq BETWEEN 0 AND \(TemporaryID.reservedMax)
                    """
            )
        }
        if readable.contains("tidemark_temporary") {
            try db.execute(
                sql: """
                    UPDATE tidemark_temporary SET next = min(tidemark_temporary.next, d.next)
                    FROM temp.rescued_tidemark_temporary AS d WHERE typeof(d.next) = 'integer'
                        AND d.next BETWEEN -\(TemporaryID.reservedMax) AND -1
                    """
            )
        }
        try db.execute(
            sql: """
                UPDATE sqlite_sequence SET seq = max(seq, coalesce((
                    SELECT max(CAST(o.key AS INTEGER)) FROM tidemark_outbox AS o
                    WHERE o.tbl = sqlite_sequence.name AND o.operation = 'create'
                        AND CAST(o.key AS INTEGER) <= \(TemporaryID.reservedMax)), 0));
                UPDATE tidemark_temporary SET next = min(next, coalesce((
                    SELECT min(CAST(o.key AS INTEGER)) - 1 FROM tidemark_outbox AS o
                    WHERE o.key GLOB '-[1-9]*' AND o.operation = 'create'
                        AND CAST(o.key AS INTEGER) >= -\(TemporaryID.reservedMax)), -1))
                """
        )
    }
}
