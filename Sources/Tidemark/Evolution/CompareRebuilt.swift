import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// Finds writes to rebuilt tables that no trigger captured.
///
/// A row that differs from the zone's row and has no pending change is such a write. The snapshot is attached as
/// `snapshot`. Its tables have no indexes, so the device copies each one to `temp.tidemark_zone_row`, with an index on
/// the key of the file's own row. Then the cost is linear in the rows.
///
/// If the zone drops a table and has it again later, the device compares it with ``FormerRows``.
struct CompareRebuilt {
    let db: Database
    let schema: SyncSchema
    let tables: [SyncedTable]
    let now: String
    let newID: () -> UUID
    /// Whether no pending change is in the rows.
    var isRewound = false
    var source = Source.snapshot

    enum Source {
        case snapshot
        /// Beside the file: the device has kept them of a later snapshot than its own revision.
        case keptRows
        /// In ``FormerRows``, which have these columns.
        case former(columns: Set<String>)
    }

    /// The rebuilt tables of a file whose rows wait for the comparison.
    enum Waiting: Hashable, Sendable {
        case none
        case keyed
        /// Also tables without a key, which do not have the numbers of rows by which an answer names them.
        case unkeyed
    }

    /// The columns of the former rows; nil to compare with rows of the zone as it is.
    private var former: Set<String>? {
        guard case .former(let columns) = source else { return nil }
        return columns
    }

    static func tables(_ file: DeviceFile) throws -> [SyncedTable] {
        guard let rebuilt = file.rebuilt else { return [] }
        let names = try JSONDecoder().decode([String].self, from: Data(rebuilt.utf8))
        return file.schema.tables.filter { names.contains($0.name) }
    }

    static func state(of file: DeviceFile) throws -> Waiting {
        guard file.rebuilt != nil else { return .none }
        return try tables(file).contains(where: \.hasRowidKey) ? .unkeyed : .keyed
    }

    /// Keeps the snapshot's rows for ``Source/keptRows``; not if a table lost its row numbers, which answers use.
    static func keepRows(of file: DeviceFile, in db: Database) throws -> Bool {
        let tables = try tables(file)
        guard !tables.contains(where: \.hasRowidKey) else { return false }
        try forgetRows(of: file, in: db)
        for table in tables {
            try db.execute(
                sql: "CREATE TEMP TABLE \(keptTable(table)) AS SELECT * FROM snapshot.\(SQLText.name(table.name))")
        }
        return true
    }

    static func forgetRows(of file: DeviceFile, in db: Database) throws {
        for table in file.schema.tables { try db.execute(sql: "DROP TABLE IF EXISTS temp.\(keptTable(table))") }
    }

    private static func keptTable(_ table: SyncedTable) -> String { SQLText.name("tidemark_zone_" + table.name) }

    /// Captures the differences from a snapshot at this file's revision, or from former rows, as edits.
    func capture() throws {
        try assignIDs()
        for table in tables {
            if tables.count > 1 { try copyZoneRows(table) }
            if former == nil {
                try markContended(table)
                try restoreReplaced(table, contended: false)
            }
            try captureUpdated(table, contended: false)
            if former == nil { try captureDeleted(table, contended: false) }
            try captureCreated(table)
        }
        try dropZoneRows()
    }

    /// Captures edits that meet values which others have written since, based on the revision that the rows had then.
    func captureContended() throws {
        for table in tables where try hasContended(table) {
            try copyZoneRows(table)
            try restoreReplaced(table, contended: true)
            try captureUpdated(table, contended: true)
            try captureDeleted(table, contended: true)
            try dateContended(table)
        }
        try dropZoneRows()
    }

    private func captureUpdated(_ table: SyncedTable, contended: Bool) throws {
        let match = match(table)
        let before = shared(table).map { own, wire in
            (own, "(SELECT \(zoneValue(wire)) FROM \(Self.zoneRows) WHERE \(match))")
        }
        guard !before.isEmpty else { return }
        let isDue = isContended(table, key: RowJSON.key(table, alias: "t."), contended)
        try CaptureAddedColumns(
            table, before: Dictionary(uniqueKeysWithValues: before),
            where: "\(isInZone(table)) AND \(differs(table)) AND \(hasNoPendingChange(table, "t.")) AND \(isDue)"
        ).run(db)
    }

    /// Parks the differences from a snapshot that replaces the rows.
    ///
    /// The device cannot tell which side made them. So the zone's rows stay, and the file's values go
    /// to the conflicts. Unless others may have deleted it, a row that the zone lacks is new.
    func park(othersMayHaveDeleted: Bool) throws {
        try assignIDs()
        for table in tables {
            if tables.count > 1 { try copyZoneRows(table) }
            try DifferingValues.createTable(in: db)
            for (own, wire) in shared(table) {
                let key = RowJSON.key(table, alias: "t.")
                try db.execute(
                    // A captured edit is based on the row with what the migration wrote.
                    sql: """
                        INSERT INTO temp.tidemark_taken (tbl, key, col, theirs, mine, kind)
                        SELECT ?1, key, ?2, theirs, mine, 'both'
                        FROM (
                            SELECT \(key) AS key, \(zoneValue(wire)) AS theirs,
                                iif(base.key IS NULL, t.\(SQLText.name(own)), tidemark_decode(base.image -> ?3)) AS mine
                            FROM main.\(SQLText.name(table.name)) AS t
                            CROSS JOIN \(Self.zoneRows) ON \(match(table))
                            LEFT JOIN tidemark_base AS base ON base.tbl = ?1 AND base.key = \(key)
                            WHERE base.key IS NULL OR json_type(base.image, ?3) IS NOT NULL AND NOT EXISTS (
                                SELECT 1 FROM tidemark_outbox AS pending
                                WHERE pending.tbl = ?1 AND pending.key = base.key
                                    AND json_type(pending.attributes, ?3) IS NOT NULL)
                        )
                        WHERE tidemark_key(theirs) IS NOT tidemark_key(mine)
                        """, arguments: [table.name, own, MemberSQL.path(own)])
                try ForgottenChanges(db: db).explainTaken(own, of: table)
            }
            try DifferingValues.park(
                table, at: now, newID: newID, in: db,
                message: "A migration rebuilt the table, and its rows differed from the zone's.")
            // Another device may have deleted the row, or changed it under a row number that is lost.
            let mayBeDeleted = table.hasRowidKey || othersMayHaveDeleted
            if !mayBeDeleted { try captureCreated(table) }
            try parkCreated(table, besidesEdited: mayBeDeleted)
            try parkDeleted(table)
        }
        try dropZoneRows()
    }

    /// Gives rows whose ids new records of an answer have ids of this device.
    ///
    /// When an answer creates a record, a row with its id is none of the server's. No trigger captured it, and
    /// the comparison will find it. The caller has rewound pending changes.
    func yieldIDs(to stream: [AnsweredSet]) throws {
        for table in tables where table.keyKind == .integer {
            let place = schema.places[table.name]
            let records = stream.flatMap(\.changeSet.records).filter { $0.table == place }
            let deleted = Set(records.lazy.filter { $0.operation == .delete }.map(\.key))
            let rows = CurrentRows(db: db)
            let taken = try records.filter {
                try $0.operation == .create && !deleted.contains($0.key) && rows.current(table, key: $0.key) != nil
            }
            guard !taken.isEmpty else { continue }
            let keys = taken.map(\.key).joined(separator: ", ")
            try renumber(table, where: "\(SQLText.name(table.key[0])) IN (\(keys))")
        }
    }

    // MARK: The zone's rows

    /// Copies the zone's rows: `key` is the zone's key in canonical JSON, `own` that of the matching row here, or NULL.
    private func copyZoneRows(_ table: SyncedTable) throws {
        let names = schema.difference.wireNames[table.name, default: [:]]
        let wire = table.key.map { names[$0] ?? $0 } + shared(table).map(\.wire)
        let key = table.key.map { SQLText.name(names[$0] ?? $0) }.joined(separator: ", ")
        let columns = wire.map { "\(SQLText.name($0)) AS \(SQLText.name(Self.prefix + $0))" }
        let origin =
            switch source {
            case .snapshot: "snapshot.\(SQLText.name(table.name))"
            case .keptRows: "temp.\(Self.keptTable(table))"
            case .former: "main.\(SQLText.name(FormerRows.name(table)))"
            }
        let match = KeySQL.match(table, key: "origin.key", alias: "app_row.", isExact: false)
        try dropZoneRows()
        try db.execute(
            sql: """
                CREATE TEMP TABLE tidemark_zone_row AS
                SELECT origin.*, (
                    SELECT \(RowJSON.key(table, alias: "app_row."))
                    FROM main.\(SQLText.name(table.name)) AS app_row
                    WHERE \(match)) AS own
                FROM (
                    SELECT tidemark_key(\(key)) AS key, \(columns.joined(separator: ", "))
                    FROM \(origin)
                ) AS origin;
                CREATE INDEX temp.tidemark_zone_row_own ON tidemark_zone_row (own);
                """)
    }

    private func dropZoneRows() throws { try db.execute(sql: "DROP TABLE IF EXISTS temp.tidemark_zone_row") }

    // MARK: Rows on one side only

    /// Gives this device's rows ids of this device, in all tables before the first row is captured.
    private func assignIDs() throws {
        for table in tables {
            try copyZoneRows(table)
            if isRewound { try takeSpelling(table) }
            try assignIDs(table)
        }
    }

    /// Gives rows the zone's spelling of their keys, which is no edit.
    private func takeSpelling(_ table: SyncedTable) throws {
        guard KeySQL.hasSpellings(table) else { return }
        let parts = table.key.indices.map {
            "\(SQLText.name(table.key[$0])) = \(KeySQL.part(table, $0, of: "zone_row.key"))"
        }
        try db.execute(
            sql: """
                UPDATE \(table.abortClause) main.\(SQLText.name(table.name)) AS t
                SET \(parts.joined(separator: ", "))
                FROM \(Self.zoneRows)
                WHERE \(match(table)) AND zone_row.own <> zone_row.key;
                UPDATE temp.tidemark_zone_row SET own = key WHERE own <> key;
                """)
    }

    private func assignIDs(_ table: SyncedTable) throws {
        let alias = "main.\(SQLText.name(table.name))."
        let isNew = "NOT \(isInZone(table, alias: alias)) AND \(hasNoPendingChange(table, alias))"
        let isKnown = ForgottenChanges.creates(table, key: RowJSON.key(table, alias: alias))
        try renumber(table, where: "\(isNew) AND NOT \(isKnown) AND NOT \(isChosen(table, isNew: isNew))")
    }

    /// Returns the condition that the migration chose the id of a new row.
    ///
    /// SQLite draws the id above the highest one. So of new rows with consecutive ids, it drew the first id if the
    /// id before belongs to an older row, and then the others.
    private func isChosen(_ table: SyncedTable, isNew: String) -> String {
        guard former == nil, table.keyKind == .integer, !table.hasRowidKey else { return "false" }
        let key = SQLText.name(table.key[0])
        return """
            \(key) IN (
                SELECT id
                FROM (
                    SELECT id, min(id) OVER (PARTITION BY run) AS first
                    FROM (
                        SELECT \(key) AS id, \(key) - row_number() OVER (ORDER BY \(key)) AS run
                        FROM main.\(SQLText.name(table.name))
                        WHERE \(key) BETWEEN 1 AND \(TemporaryID.permanentMax) AND \(isNew)))
                WHERE first > 1
                    AND first - 1 NOT IN (SELECT CAST(key AS INTEGER) FROM \(Self.zoneRows))
                    AND first - 1 NOT IN (
                        SELECT CAST(key AS INTEGER) FROM tidemark_base WHERE tbl = \(SQLText.literal(table.name))))
            """
    }

    /// Gives rows ids of this device, also in pending changes; the server has no such records, so only those name them.
    private func renumber(_ table: SyncedTable, where condition: String) throws {
        guard table.keyKind == .integer else { return }
        try AdoptTables(db: db, schema: schema, now: now, newID: newID).assignIDs(
            table, where: condition,
            shared: { name in former == nil ? [] : Set(schema.byName[name]?.columns.map(\.name) ?? []) })
        // The zone has had the references to a table that it dropped, so there they are edits.
        guard former == nil else { return }
        try RewriteKeys(db: db, schema: schema, pairs: .ids).run(in: [
            "tidemark_outbox", "tidemark_base", "tidemark_held",
        ])
    }

    private func captureCreated(_ table: SyncedTable) throws {
        try CaptureRows.captureAsCreated(
            table, where: "NOT \(isInZone(table)) AND \(hasNoPendingChange(table, "t."))", in: db)
    }

    /// Parks rows that the zone lacks, as edits that no trigger captured; `hasOthers` adds those without a later edit.
    private func parkCreated(_ table: SyncedTable, besidesEdited hasOthers: Bool) throws {
        try db.execute(
            sql: """
                INSERT INTO temp.tidemark_found (place, tbl, key, operation, mine)
                SELECT 0, ?1, \(RowJSON.key(table, alias: "t.")), 'create', iif(base.key IS NULL,
                    \(RowJSON.object(table.valueColumns.map(\.name), prefix: "t.")), base.image)
                FROM main.\(SQLText.name(table.name)) AS t
                LEFT JOIN tidemark_base AS base ON base.tbl = ?1 AND base.key = \(RowJSON.key(table, alias: "t."))
                WHERE NOT \(isInZone(table)) AND iif(base.key IS NULL, ?2, base.image IS NOT NULL)
                """, arguments: [table.name, hasOthers])
        try ForgottenChanges(db: db).explainFound()
        _ = try UncapturedEdits(db: db, schema: schema, now: now, newID: newID).park()
    }

    /// Parks the deletions of rows that the zone had at the file's revision, and still has.
    private func parkDeleted(_ table: SyncedTable) throws {
        let columns = shared(table)
        let names = Dictionary(uniqueKeysWithValues: columns.map { ($0.own, Self.prefix + $0.wire) })
        try db.execute(
            sql: """
                INSERT INTO temp.tidemark_found (place, tbl, key, operation, theirs)
                SELECT 0, ?1, replaced.key, 'delete',
                    \(RowJSON.object(columns.map(\.own), prefix: "zone_row.", names: names))
                FROM tidemark_replaced AS replaced
                JOIN \(Self.zoneRows) ON zone_row.key = replaced.key
                WHERE replaced.tbl = ?1 AND replaced.mine IS NULL AND replaced.base IS NOT NULL AND zone_row.own IS NULL
                """, arguments: [table.name])
        try ForgottenChanges(db: db).explainFound()
        _ = try UncapturedEdits(db: db, schema: schema, now: now, newID: newID).park()
    }

    private func captureDeleted(_ table: SyncedTable, contended: Bool) throws {
        let columns = schema.difference.served(table.columns, of: table.name)
        let values = columns.map { zoneValue($0.wire) }
        let deletedRows = """
            FROM \(Self.zoneRows)
            WHERE zone_row.own IS NULL AND \(isContended(table, key: "zone_row.key", contended))
            """
        let old = columns.map { SQLText.name("old_" + $0.own) }.joined(separator: ", ")
        try db.execute(
            sql: """
                INSERT INTO tidemark_capture (tbl, base)
                SELECT \(SQLText.literal(table.name)), (SELECT revision FROM tidemark_state) \(deletedRows);
                INSERT INTO \(SQLText.name(CaptureTables.shadow(table))) (seq, kind, \(old))
                SELECT (SELECT max(seq) FROM tidemark_capture) - count(*) OVER () + row_number() OVER (),
                    'delete', \(values.joined(separator: ", ")) \(deletedRows);
                """)
    }

    // MARK: Moved rows

    /// Gives rows without a key their row numbers back; pending changes are in the rows.
    func restoreRowids() throws {
        for table in tables where table.hasRowidKey {
            let columns = shared(table)
            try RestoreRowids(db: db, schema: schema, table: table, columns: columns).run()
        }
    }

    // MARK: SQL

    /// Returns the value columns that file and zone share, with the zone's names.
    func shared(_ table: SyncedTable) -> [(own: String, wire: String)] {
        schema.difference.served(table.valueColumns, of: table.name).filter { former?.contains($0.wire) ?? true }
    }

    static let zoneRows = "temp.tidemark_zone_row AS zone_row"
    /// The prefix of the copied columns, so that none is named `key` or `own`.
    static let prefix = "zone_"

    func zoneValue(_ wire: String) -> String { "zone_row.\(SQLText.name(Self.prefix + wire))" }

    /// Returns the condition that a row of the table and a zone's row are the same record.
    private func match(_ table: SyncedTable, alias: String = "t.") -> String {
        "zone_row.own = \(RowJSON.key(table, alias: alias))"
    }

    private func isInZone(_ table: SyncedTable, alias: String = "t.") -> String {
        "EXISTS (SELECT 1 FROM \(Self.zoneRows) WHERE \(match(table, alias: alias)))"
    }

    private func differs(_ table: SyncedTable) -> String {
        let pairs = shared(table).map { own, wire in
            "tidemark_key(\(zoneValue(wire))) IS NOT tidemark_key(t.\(SQLText.name(own)))"
        }
        return "EXISTS (SELECT 1 FROM \(Self.zoneRows) WHERE \(match(table)) AND (\(pairs.joined(separator: " OR "))))"
    }

    /// Returns the condition that a pending change has not altered the row.
    private func hasNoPendingChange(_ table: SyncedTable, _ alias: String) -> String {
        isRewound ? "true" : EarlyRows.isUncaptured(table, alias)
    }
}
