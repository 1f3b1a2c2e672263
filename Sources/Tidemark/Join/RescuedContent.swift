import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// Validates the content that was copied from a damaged file.
struct RescuedContent {
    let db: Database

    static func damaged(_ part: String, because reason: String? = nil) -> TidemarkError {
        TidemarkError(
            .fileDamaged, "The file's unsent data is unreadable, too: \(part)\(reason.map { " (\($0))" } ?? "").",
            fix: "Keep the file. RECOVERY.md says under \"A device's file is damaged\" what else can be tried.")
    }

    /// Checks that the outbox is complete and well-formed; throws an error that names the first faulty part.
    func check(schema: SyncSchema) throws {
        let orphans = "NOT IN (SELECT seq FROM tidemark_changeset)"
        // An unsent change set may be empty.
        try refuse(
            "the records of a change set that was sent",
            "SELECT id FROM tidemark_changeset WHERE wire IS NOT NULL AND seq NOT IN (SELECT seq FROM tidemark_outbox)")
        try refuse(
            "a record of a change set that is lost",
            "SELECT tbl || ' ' || key FROM tidemark_outbox WHERE seq \(orphans)")
        try refuse("a piece of a change set that is lost", "SELECT number FROM tidemark_wire_rest WHERE seq \(orphans)")
        try refuse("an id", "SELECT id FROM tidemark_changeset WHERE NOT \(Self.idCondition("id"))")
        try refuse(
            "a change set as it was sent",
            """
            SELECT id FROM tidemark_changeset AS changeset
            WHERE wire IS NOT NULL
                AND NOT EXISTS (SELECT 1 FROM tidemark_wire_rest AS overflow WHERE overflow.seq = changeset.seq)
                AND NOT iif(json_valid(wire), wire ->> '$.id' IS id, 0)
            """)
        try refuse(
            "a change",
            """
            SELECT tbl || ' ' || key FROM tidemark_outbox
            WHERE operation NOT IN ('create', 'update', 'delete') OR typeof(base) <> 'integer'
                OR before IS NOT NULL AND NOT json_valid(before)
                OR attributes IS NOT NULL AND NOT json_valid(attributes)
            """)
        try refuse(
            "a conflict", "SELECT id FROM tidemark_conflict WHERE NOT json_valid(reasons) OR NOT json_valid(after)")
        for table in schema.tables {
            let shadow = SQLText.name(CaptureTables.shadow(table))
            try refuse(
                "a captured change of the table \(table.name)",
                "SELECT seq FROM \(shadow) WHERE seq NOT IN (SELECT seq FROM tidemark_capture)")
            try refuse(
                "a captured change of the table \(table.name)",
                """
                SELECT seq FROM tidemark_capture WHERE tbl = \(SQLText.literal(table.name))
                    AND seq NOT IN (SELECT seq FROM \(shadow))
                """)
        }
    }

    /// Returns SQL that tests whether a column holds a UUID as text.
    static func idCondition(_ column: String) -> String {
        "(typeof(\(column)) = 'text' AND length(\(column)) = 36 AND \(column) NOT GLOB '*[^0-9a-f-]*')"
    }

    private func refuse(_ part: String, _ sql: String) throws {
        guard let row = try Row.fetchOne(db, sql: sql + " LIMIT 1") else { return }
        let name = row.databaseValues.first.map { "\($0)" } ?? ""
        throw Self.damaged("\(part) (\(name))")
    }

    /// Creates bases of the old rows in first changes; the caller then refreshes them from the new file's rows.
    func createBases() throws {
        try db.execute(sql: "DELETE FROM tidemark_base")
        try db.execute(
            sql: """
                INSERT INTO tidemark_base (tbl, key, image)
                SELECT tbl, key, before
                FROM (
                    SELECT tbl, key, before, min(seq)
                    FROM tidemark_outbox
                    GROUP BY tbl, key)
                """)
    }

    /// Reads the status and conflicts, builds a request and rolls it back; throws if the file cannot be synced.
    func proveUsable(at moment: Moment) throws {
        _ = try DeviceStatus(db)
        _ = try Conflict.all(db)
        do {
            try db.inTransaction(.immediate) {
                let limits = moment.limits
                let request = try DeviceCore(limits: limits).prepareRequest(
                    db, at: moment, changeSetsMax: limits.changeSetsPerRequestMax, checksRows: true)
                try checkForm(of: request.body, limits)
                return .rollback
            }
        } catch let error as TidemarkError where error.recovery != .permanent {
            // The history differs: the next sync asks the server about it.
            return
        } catch let error as TidemarkError where error.code == .serverBehind {
            // The next sync parks change sets of a table that the zone has dropped.
            return
        }
    }

    /// Checks that a request is valid JSON, which a single damaged character can break.
    private func checkForm(of body: [UInt8], _ limits: Limits) throws {
        do throws(TidemarkError) {
            try body.withUnsafeBufferPointer { (bytes) throws(TidemarkError) in
                var reader = try JSONReader(bytes, depthMax: limits.jsonDepthMax)
                try reader.skip()
                try reader.finish()
            }
        } catch { throw Self.damaged("the text of a request", because: error.message) }
    }
}

/// Copies the damaged file's identity and counters, so that the new file is the same device.
struct RescuedIdentity {
    let db: Database

    /// Leaves out damaged optional parts; `counters` are the tables with temporary copies; returns the epoch.
    func take(counters: Set<String>) throws -> String? {
        let identity = try Row.fetchOne(
            db,
            sql: """
                SELECT device, epoch, time, overruled, lap, open_laps,
                    \(RescuedContent.idCondition("device")) AND server IS NOT NULL
                        AND (epoch IS NULL OR \(RescuedContent.idCondition("epoch"))) AS sound
                FROM damaged.tidemark_device
                """)
        guard let identity, try identity.value("sound") as Bool? == true else {
            throw RescuedContent.damaged("the device's identity")
        }
        // The clock must stay after the times in the snapshot.
        let clock = try DeviceClock.read(db)
        try db.execute(
            sql: """
                UPDATE tidemark_device
                SET device = source.device,
                    time = iif(typeof(source.time) = 'integer' AND source.time BETWEEN 0 AND ?1,
                        source.time, 0),
                    overruled = iif(typeof(source.overruled) = 'integer' AND source.overruled BETWEEN 0 AND ?1,
                        source.overruled, 0)
                FROM damaged.tidemark_device AS source
                """, arguments: [TemporaryID.reservedMax])
        for column in ["user", "name"] { try copyText(column) }
        try copyLaps()
        try DeviceClock.store(clock, in: db)
        try copyCounters(counters)
        return try identity.value("epoch")
    }

    /// Copies the user or the name of the device; a file of an older version has none.
    private func copyText(_ column: String) throws {
        let columns = try db.columns(in: "tidemark_device", in: "damaged")
        guard columns.contains(where: { $0.name == column }) else { return }
        try db.execute(
            sql: """
                UPDATE tidemark_device
                SET \(column) = source.\(column)
                FROM damaged.tidemark_device AS source
                WHERE typeof(source.\(column)) = 'text'
                """)
    }

    /// Without the laps the server treats the file as an older copy, and the device takes a new identity.
    private func copyLaps() throws {
        try db.execute(
            sql: """
                UPDATE tidemark_device
                SET lap = source.lap, open_laps = source.open_laps
                FROM damaged.tidemark_device AS source
                WHERE (source.lap IS NULL OR \(RescuedContent.idCondition("source.lap")))
                    AND iif(json_valid(source.open_laps), json_type(source.open_laps) = 'array'
                        AND NOT EXISTS (
                            SELECT 1 FROM json_each(source.open_laps) AS open_lap
                            WHERE NOT \(RescuedContent.idCondition("open_lap.value"))), 0)
                """)
    }

    /// Copies the id counters and moves them beyond every pending id.
    private func copyCounters(_ readable: Set<String>) throws {
        if readable.contains("sqlite_sequence") {
            try db.execute(
                sql: """
                    UPDATE sqlite_sequence
                    SET seq = max(sqlite_sequence.seq, rescued.seq)
                    FROM temp.rescued_sqlite_sequence AS rescued
                    WHERE rescued.name = sqlite_sequence.name
                        AND typeof(rescued.seq) = 'integer'
                        AND rescued.seq BETWEEN 0 AND \(TemporaryID.reservedMax)
                    """)
        }
        if readable.contains("tidemark_temporary") {
            try db.execute(
                sql: """
                    UPDATE tidemark_temporary
                    SET next = min(tidemark_temporary.next, rescued.next)
                    FROM temp.rescued_tidemark_temporary AS rescued
                    WHERE typeof(rescued.next) = 'integer'
                        AND rescued.next BETWEEN -\(TemporaryID.reservedMax) AND -1
                    """)
        }
        try db.execute(
            sql: """
                UPDATE sqlite_sequence SET seq = max(seq, coalesce((
                    SELECT max(CAST(pending.key AS INTEGER))
                    FROM tidemark_outbox AS pending
                    WHERE pending.tbl = sqlite_sequence.name AND pending.operation = 'create'
                        AND CAST(pending.key AS INTEGER) <= \(TemporaryID.reservedMax)), 0));
                UPDATE tidemark_temporary SET next = min(next, coalesce((
                    SELECT min(CAST(pending.key AS INTEGER)) - 1
                    FROM tidemark_outbox AS pending
                    WHERE pending.key GLOB '-[1-9]*' AND pending.operation = 'create'
                        AND CAST(pending.key AS INTEGER) >= -\(TemporaryID.reservedMax)), -1))
                """)
    }
}
