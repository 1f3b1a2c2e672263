import Foundation
import GRDB
import TidemarkCore
import TidemarkSQLite

/// Finds what was written into tables that were rebuilt, while they had no triggers: whatever
/// differs from the zone's rows, and is no edit that waits, was not captured.
///
/// The snapshot is attached as `snapshot`.
struct CompareRebuilt {
    let db: Database
    let schema: SyncSchema
    let tables: [SyncedTable]
    let now: String
    let newID: () -> UUID

    /// The tables of a file that have to be compared.
    static func tables(_ file: DeviceFile) throws -> [SyncedTable] {
        guard let rebuilt = file.rebuilt else { return [] }
        let names = try JSONDecoder().decode([String].self, from: Data(rebuilt.utf8))
        return file.schema.tables.filter { names.contains($0.name) }
    }

    /// Captures the differences from a snapshot at this file's own revision: they are edits.
    func capture() throws {
        for table in tables {
            try giveIds(table)
            let match = match(table)
            let before = shared(table).map { own, wire in
                (own, "(SELECT s.\(SQLText.name(wire)) FROM \(source(table)) WHERE \(match))")
            }
            if !before.isEmpty {
                try CaptureAddedColumns(
                    table,
                    before: Dictionary(uniqueKeysWithValues: before),
                    where: "\(isKnown(table)) AND \(differs(table)) AND \(isFree(table, "t."))"
                ).run(db)
            }
            try captureDeleted(table)
            try captureCreated(table)
        }
    }

    /// Keeps the differences from a snapshot at another revision: nobody can say whose they are, so
    /// the zone's rows stay and this file's go into the conflicts.
    func park() throws {
        for table in tables {
            try giveIds(table)
            try Taken.make(in: db)
            for (own, wire) in shared(table) {
                try db.execute(
                    sql: """
                        INSERT INTO temp.tidemark_taken (key, col, theirs, mine, kind)
                        SELECT \(RowJSON.key(table, alias: "t.")), ?, s.\(SQLText.name(wire)), t.\(SQLText.name(own)), 'both'
                        FROM main.\(SQLText.name(table.name)) AS t JOIN \(source(table)) ON \(match(table))
                        WHERE tidemark_key(s.\(SQLText.name(wire))) IS NOT tidemark_key(t.\(SQLText.name(own)))
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
    }

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
        try CaptureRows.created(
            table,
            where: "NOT \(isKnown(table)) AND \(isFree(table, "t."))",
            in: db
        )
    }

    private func captureDeleted(_ table: SyncedTable) throws {
        let names = schema.difference.wireNames[table.name, default: [:]]
        let unserved = Set(schema.difference.unservedColumns[table.name, default: []].map(\.name))
        let values = table.columns.map {
            unserved.contains($0.name) ? "NULL" : "s.\(SQLText.name(names[$0.name] ?? $0.name))"
        }
        let gone = """
            FROM \(source(table)) WHERE NOT EXISTS (
                SELECT 1 FROM main.\(SQLText.name(table.name)) AS t WHERE \(match(table)))
            AND NOT EXISTS (SELECT 1 FROM tidemark_base AS b WHERE b.tbl = \(SQLText.literal(table.name))
                AND b.key = \(snapshotKey(table)))
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

    /// The columns that both sides have, with the zone's names.
    private func shared(_ table: SyncedTable) -> [(own: String, wire: String)] {
        let names = schema.difference.wireNames[table.name, default: [:]]
        let unserved = Set(schema.difference.unservedColumns[table.name, default: []].map(\.name))
        return table.valueColumns.map(\.name).filter { !unserved.contains($0) }.map {
            ($0, names[$0] ?? $0)
        }
    }

    private func wireKey(_ table: SyncedTable) -> [String] {
        let names = schema.difference.wireNames[table.name, default: [:]]
        return table.key.map { names[$0] ?? $0 }
    }

    private func source(_ table: SyncedTable) -> String {
        "snapshot.\(SQLText.name(table.name)) AS s"
    }

    private func snapshotKey(_ table: SyncedTable) -> String {
        "tidemark_key(\(wireKey(table).map { "s.\(SQLText.name($0))" }.joined(separator: ", ")))"
    }

    private func match(_ table: SyncedTable, alias: String = "t.") -> String {
        zip(table.key, wireKey(table)).map {
            "s.\(SQLText.name($1)) = \(alias)\(SQLText.name($0))"
        }.joined(separator: " AND ")
    }

    private func isKnown(_ table: SyncedTable, alias: String = "t.") -> String {
        "EXISTS (SELECT 1 FROM \(source(table)) WHERE \(match(table, alias: alias)))"
    }

    private func differs(_ table: SyncedTable) -> String {
        let pairs = shared(table).map { own, wire in
            "tidemark_key(s.\(SQLText.name(wire))) IS NOT tidemark_key(t.\(SQLText.name(own)))"
        }
        return
            "EXISTS (SELECT 1 FROM \(source(table)) WHERE \(match(table)) AND (\(pairs.joined(separator: " OR "))))"
    }

    /// Whether no edit of the record waits.
    private func isFree(_ table: SyncedTable, _ alias: String) -> String {
        """
        NOT EXISTS (SELECT 1 FROM tidemark_base AS b WHERE b.tbl = \(SQLText.literal(table.name))
        AND b.key = \(RowJSON.key(table, alias: alias)))
        """
    }
}
