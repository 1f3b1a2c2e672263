import Foundation
import GRDB
import TidemarkCore
import TidemarkSQLite

/// Finds what was written into tables that were rebuilt, while they had no triggers: whatever
/// differs from the zone's rows, and is no edit that waits, was not captured.
///
/// The snapshot is attached as `snapshot`. Its tables have neither types nor indexes, so a look-up
/// in them reads all rows. Each table is first copied into `temp.tidemark_zone_row`, which is
/// indexed by the key of the file's own row; then the cost is linear in the rows.
///
/// A table that the zone had dropped and has again is compared in the same way with ``FormerRows``.
struct CompareRebuilt {
    let db: Database
    let schema: SyncSchema
    let tables: [SyncedTable]
    let now: String
    let newID: () -> UUID
    /// The columns of the former rows that the file's are compared with; nil: with a snapshot.
    var former: Set<String>?

    /// The tables of a file that have to be compared.
    static func tables(_ file: DeviceFile) throws -> [SyncedTable] {
        guard let rebuilt = file.rebuilt else { return [] }
        let names = try JSONDecoder().decode([String].self, from: Data(rebuilt.utf8))
        return file.schema.tables.filter { names.contains($0.name) }
    }

    /// Captures the differences from a snapshot at this file's own revision, or from former rows:
    /// they are edits.
    func capture() throws {
        for table in tables {
            try copyZone(table)
            try giveIds(table)
            let match = match(table)
            let before = shared(table).map { own, wire in
                (own, "(SELECT \(zone(wire)) FROM \(Self.source) WHERE \(match))")
            }
            if !before.isEmpty {
                try CaptureAddedColumns(
                    table,
                    before: Dictionary(uniqueKeysWithValues: before),
                    where: "\(isKnown(table)) AND \(differs(table)) AND \(isFree(table, "t."))"
                ).run(db)
            }
            if former == nil { try captureDeleted(table) }
            try captureCreated(table)
        }
        try forgetZone()
    }

    /// Keeps the differences from a snapshot at another revision: nobody can say whose they are, so
    /// the zone's rows stay and this file's go into the conflicts.
    func park() throws {
        for table in tables {
            try copyZone(table)
            try giveIds(table)
            try Taken.make(in: db)
            for (own, wire) in shared(table) {
                try db.execute(
                    sql: """
                        INSERT INTO temp.tidemark_taken (key, col, theirs, mine, kind)
                        SELECT \(RowJSON.key(table, alias: "t.")), ?, \(zone(wire)), t.\(SQLText.name(own)), 'both'
                        FROM main.\(SQLText.name(table.name)) AS t CROSS JOIN \(Self.source) ON \(match(table))
                        WHERE tidemark_key(\(zone(wire))) IS NOT tidemark_key(t.\(SQLText.name(own)))
                            AND \(isFree(table, "t."))
                        """,
                    arguments: [own]
                )
            }
            if try Taken.has("'both'", in: db) {
                try ParkedRows(db: db, now: now).park(
                    table,
                    id: newID().uuidString.lowercased(),
                    message: "The table was rebuilt, and its rows were others than the zone's."
                )
            }
            try captureCreated(table)
        }
        try forgetZone()
    }

    // MARK: The zone's rows

    /// Copies the snapshot's rows of a table, with their keys in canonical JSON: as the zone has
    /// them, and as this file's row has it that its columns take for the same; NULL: there is none.
    private func copyZone(_ table: SyncedTable) throws {
        let names = schema.difference.wireNames[table.name, default: [:]]
        let wire = table.key.map { names[$0] ?? $0 } + shared(table).map(\.wire)
        let key = table.key.map { SQLText.name(names[$0] ?? $0) }.joined(separator: ", ")
        let columns = wire.map { "\(SQLText.name($0)) AS \(SQLText.name(Self.prefix + $0))" }
        let origin = former == nil ? "snapshot.\(SQLText.name(table.name))" : formerName(table)
        let same = KeySQL.match(table, key: "z.key", alias: "t.", isExact: false)
        try forgetZone()
        try db.execute(
            sql: """
                CREATE TEMP TABLE tidemark_zone_row AS
                SELECT z.*, (
                    SELECT \(RowJSON.key(table, alias: "t."))
                    FROM main.\(SQLText.name(table.name)) AS t WHERE \(same)) AS own
                FROM (SELECT tidemark_key(\(key)) AS key, \(columns.joined(separator: ", "))
                    FROM \(origin)) AS z;
                CREATE INDEX temp.tidemark_zone_row_own ON tidemark_zone_row (own);
                """
        )
    }

    private func formerName(_ table: SyncedTable) -> String { "main.\(SQLText.name(FormerRows.name(table)))" }

    private func forgetZone() throws { try db.execute(sql: "DROP TABLE IF EXISTS temp.tidemark_zone_row") }

    // MARK: Rows on one side only

    private func giveIds(_ table: SyncedTable) throws {
        let own = "NOT \(isKnown(table, alias: "main.\(SQLText.name(table.name)).")) AND "
        try AdoptTables(db: db, schema: schema, now: now, newID: newID).giveTemporaryIds(
            table,
            where: own + isFree(table, "main.\(SQLText.name(table.name))."),
            shared: { name in Set(schema.byName[name]?.columns.map(\.name) ?? []) }
        )
    }

    private func captureCreated(_ table: SyncedTable) throws {
        try CaptureRows.created(table, where: "NOT \(isKnown(table)) AND \(isFree(table, "t."))", in: db)
    }

    private func captureDeleted(_ table: SyncedTable) throws {
        let names = schema.difference.wireNames[table.name, default: [:]]
        let unserved = Set(schema.difference.unservedColumns[table.name, default: []].map(\.name))
        let values = table.columns.map { unserved.contains($0.name) ? "NULL" : zone(names[$0.name] ?? $0.name) }
        let gone = """
            FROM \(Self.source) WHERE s.own IS NULL AND NOT EXISTS (
                SELECT 1 FROM tidemark_base AS b WHERE b.tbl = \(SQLText.literal(table.name))
                    AND b.key = s.key)
            """
        let old = table.columns.map { SQLText.name("old_" + $0.name) }.joined(separator: ", ")
        try db.execute(
            sql: """
                INSERT INTO tidemark_capture (tbl, base)
                SELECT \(SQLText.literal(table.name)), (SELECT revision FROM tidemark_state) \(gone);
                INSERT INTO \(SQLText.name(CaptureTables.shadow(table))) (seq, kind, \(old))
                SELECT (SELECT max(seq) FROM tidemark_capture) - count(*) OVER () + row_number() OVER (),
                    'delete', \(values.joined(separator: ", ")) \(gone);
                """
        )
    }

    // MARK: SQL

    /// The value columns that both sides have, with the zone's names.
    private func shared(_ table: SyncedTable) -> [(own: String, wire: String)] {
        let names = schema.difference.wireNames[table.name, default: [:]]
        let unserved = Set(schema.difference.unservedColumns[table.name, default: []].map(\.name))
        return table.valueColumns.map(\.name).filter { !unserved.contains($0) }.map { (own: $0, wire: names[$0] ?? $0) }
            .filter { former?.contains($0.wire) ?? true }
    }

    private static let source = "temp.tidemark_zone_row AS s"
    /// What the names of the copied columns begin with, so that none is called `key` or `own`.
    private static let prefix = "zone_"

    /// The zone's value of a column.
    private func zone(_ wire: String) -> String { "s.\(SQLText.name(Self.prefix + wire))" }

    /// Whether a row of the table and one of the zone's are the same record.
    private func match(_ table: SyncedTable, alias: String = "t.") -> String {
        "s.own = \(RowJSON.key(table, alias: alias))"
    }

    private func isKnown(_ table: SyncedTable, alias: String = "t.") -> String {
        "EXISTS (SELECT 1 FROM \(Self.source) WHERE \(match(table, alias: alias)))"
    }

    private func differs(_ table: SyncedTable) -> String {
        let pairs = shared(table).map { own, wire in
            "tidemark_key(\(zone(wire))) IS NOT tidemark_key(t.\(SQLText.name(own)))"
        }
        return "EXISTS (SELECT 1 FROM \(Self.source) WHERE \(match(table)) AND (\(pairs.joined(separator: " OR "))))"
    }

    /// Whether no edit of the record waits.
    private func isFree(_ table: SyncedTable, _ alias: String) -> String {
        """
        NOT EXISTS (SELECT 1 FROM tidemark_base AS b WHERE b.tbl = \(SQLText.literal(table.name))
        AND b.key = \(RowJSON.key(table, alias: alias)))
        """
    }
}
