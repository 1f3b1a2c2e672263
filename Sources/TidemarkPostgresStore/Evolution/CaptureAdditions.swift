import TidemarkCore
import TidemarkSQLite

/// Captures what was written into new columns and tables before their triggers knew them, and makes
/// what is captured already speak of the columns that there are now.
struct CaptureAdditions {
    let pg: PostgresConnection
    let record: ServedRecord

    // MARK: Fills

    /// The value that rows got in each new column, in canonical JSON: the one that PostgreSQL
    /// itself keeps for rows that are older than the column, else a literal default, else `null`.
    func fills(of columns: [String], _ table: String, _ schema: SyncSchema) throws -> [String: String] {
        guard !columns.isEmpty, let known = schema.byName[table] else { return [:] }
        let stored = try PostgresCatalog.table(known, namespace: record.namespace, zoneColumn: record.zoneColumn, pg)
        return try columns.reduce(into: [:]) { $0[$1] = try fill($1, stored) }
    }

    private func fill(_ column: String, _ table: PostgresTable) throws -> String {
        let (kind, type) = (table.kind(column), table.type(column))
        let missing = "(attmissingval::text::\(type)[])[1]"
        // An array of arrays cannot be read so.
        let kept = try pg.rows(
            """
            SELECT \(kind.json(missing)) FROM pg_attribute
            WHERE attrelid = to_regclass(\(SQLText.literal(table.name)))
                AND attname = \(SQLText.literal(column)) AND atthasmissing
                AND \(!type.hasSuffix("[]"))
            """
        )
        if !kept.isEmpty { return kept[0].text(0) }
        guard let value = table.defaults[column], AdoptTables.isConstant(value) else { return "null" }
        return try pg.rows("SELECT \(kind.json("(\(value))::\(type)"))")[0].text(0)
    }

    // MARK: Rows

    /// Captures the rows whose new columns are not what everybody takes them for.
    func add(_ columns: [String], _ fills: [String: String], of table: PostgresTable) throws {
        guard !columns.isEmpty else { return }
        try fillCaptured(columns, fills, of: table)
        let differs = columns.map {
            "\(table.kind($0).json(table.column($0, "t"))) <> \(SQLText.literal(fills[$0] ?? "null"))"
        }
        let before = columns.reduce(into: [:]) { $0[$1] = fills[$1] ?? "null" }
        try capture(table, before: table.rowJSON("t", replacing: before), where: differs.joined(separator: " OR "))
    }

    /// Captures all rows of a table as created: it has only now become a synced one.
    func create(_ table: PostgresTable) throws { try capture(table, before: "NULL", where: "true") }

    private func capture(_ table: PostgresTable, before: String, where condition: String) throws {
        let zone = CaptureTriggers.zone(of: "t", table)
        try pg.execute(
            """
            INSERT INTO tidemark.capture (zone, tbl, key, before, after)
            SELECT \(zone), \(table.literal), \(table.keyJSON("t")), \(before), \(table.rowJSON("t"))
            FROM \(table.name) AS t JOIN tidemark.zone AS z ON z.zone = \(zone) WHERE \(condition)
            """
        )
    }

    /// Makes what was captured a transaction of its own, after all that have committed.
    func noteOutside() throws {
        try pg.execute(
            """
            INSERT INTO tidemark.outside (zone, xid)
            SELECT DISTINCT zone, xid FROM tidemark.capture WHERE xid = pg_current_xact_id()
            ON CONFLICT DO NOTHING
            """
        )
    }

    // MARK: What is captured already

    /// Gives rows that were captured before the column was there what they have in it.
    private func fillCaptured(_ columns: [String], _ fills: [String: String], of table: PostgresTable) throws {
        let members = columns.map { "\(ChangeSetJSON.quote($0)):\(fills[$0] ?? "null")" }
        let text = SQLText.literal(members.joined(separator: ",") + "}")
        let filled = { (image: String) in
            "CASE WHEN \(image) = '{}' THEN '{' || \(text) ELSE left(\(image), -1) || ',' || \(text) END"
        }
        try pg.execute(
            """
            UPDATE tidemark.capture SET before = \(filled("before")), after = \(filled("after"))
            WHERE tbl = \(table.literal)
            """
        )
    }

    /// Gives columns their new names in what is captured, and in the log.
    func rename(_ renames: [TableDifference.Rename], of table: String) throws {
        for rename in renames {
            let (old, new) = (SQLText.literal(rename.old), SQLText.literal(rename.new))
            let name = "CASE m.key WHEN \(old) THEN \(new) ELSE m.key END"
            let renamed = { (image: String) in
                """
                CASE WHEN \(image) IS NOT NULL THEN (
                    SELECT '{' || coalesce(string_agg(tidemark.quote(\(name)) || ':' || m.value::text, ',' ORDER BY m.ordinality), '') || '}'
                    FROM json_each(\(image)::json) WITH ORDINALITY AS m) END
                """
            }
            try pg.execute(
                """
                UPDATE tidemark.capture SET before = \(renamed("before")), after = \(renamed("after"))
                WHERE tbl = \(SQLText.literal(table));
                UPDATE tidemark.log SET columns = (
                    SELECT '[' || string_agg(tidemark.quote(CASE v WHEN \(old) THEN \(new) ELSE v END), ',' ORDER BY n) || ']'
                    FROM json_array_elements_text(columns::json) WITH ORDINALITY AS c (v, n))
                WHERE tbl = \(SQLText.literal(table)) AND columns IS NOT NULL AND columns <> '[]'
                """
            )
        }
    }

    /// Forgets what is captured of tables that are gone, or whose rows nobody can vouch for.
    func forget(_ tables: [String]) throws {
        guard !tables.isEmpty else { return }
        try pg.query("DELETE FROM tidemark.capture WHERE tbl = ANY ($1::text[])", [PostgresArray.quoted(tables)])
    }
}
