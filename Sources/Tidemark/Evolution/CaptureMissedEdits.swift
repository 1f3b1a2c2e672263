import GRDB
import TidemarkCore
import TidemarkSQL

/// Captures edits of records with pending changes that the triggers missed.
///
/// The table had no triggers at the time, or its triggers did not cover the column.
struct CaptureMissedEdits {
    let db: Database
    let schema: SyncSchema

    /// `fallback` returns SQL over `t` for the canonical JSON of a column that neither outbox nor base has.
    func capture(_ table: SyncedTable, fallback: (SyncedTable.Column) throws -> String) throws {
        let key = RowJSON.key(table, alias: "t.")
        let literal = SQLText.literal(table.name)
        let unserved = Set(schema.difference.unservedColumns[table.name, default: []].map(\.name))
        let values = try table.valueColumns.filter { !unserved.contains($0.name) }.map { column -> (String, String) in
            (column.name, Self.expected(column, table: literal, key: key, otherwise: try fallback(column)))
        }
        guard !values.isEmpty else { return }
        let differs = values.map { name, value in "tidemark_key(t.\(SQLText.name(name))) IS NOT tidemark_key(\(value))"
        }
        try CaptureAddedColumns(
            table, before: Dictionary(uniqueKeysWithValues: values),
            where: """
                EXISTS (SELECT 1 FROM tidemark_base AS base WHERE base.tbl = \(literal) AND base.key = \(key))
                AND (\(differs.joined(separator: " OR ")))
                """
        ).run(db)
    }

    /// Returns SQL for the value that a record has with its pending changes, the additions among them.
    ///
    /// `key` is SQL for the record's key, `missing` for the canonical JSON if neither outbox nor base has the column.
    static func expected(_ column: SyncedTable.Column, table: String, key: String, otherwise missing: String = "NULL")
        -> String
    {
        let path = SQLText.literal(MemberSQL.path(column.name))
        let entries = """
            FROM tidemark_outbox AS entry
            WHERE entry.tbl = \(table) AND entry.key = \(key) AND json_type(entry.attributes, \(path)) IS NOT NULL
            """
        let isDelta = "json_type(entry.attributes -> \(path), '$.\"$add\"') IS NOT NULL"
        let value = """
            coalesce(
                (SELECT entry.attributes -> \(path) \(entries) AND NOT (\(isDelta)) ORDER BY entry.seq DESC LIMIT 1),
                (SELECT confirmed.image -> \(path) FROM tidemark_base AS confirmed
                    WHERE confirmed.tbl = \(table) AND confirmed.key = \(key)),
                \(missing))
            """
        guard column.affinity == "INTEGER" else { return "tidemark_decode(\(value))" }
        let delta = """
            (SELECT tidemark_sum((entry.attributes -> \(path)) ->> '$."$add"') \(entries) AND \(isDelta)
                AND entry.seq > coalesce((SELECT max(value_entry.seq)
                    FROM tidemark_outbox AS value_entry
                    WHERE value_entry.tbl = entry.tbl AND value_entry.key = entry.key
                        AND json_type(value_entry.attributes, \(path)) IS NOT NULL
                        AND json_type(value_entry.attributes -> \(path), '$."$add"') IS NULL), \(Int64.min)))
            """
        return "tidemark_add(tidemark_decode(\(value)), \(delta))"
    }
}
