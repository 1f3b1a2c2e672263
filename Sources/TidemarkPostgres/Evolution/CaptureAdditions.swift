import TidemarkCore
import TidemarkSQL

/// Captures rows of new columns and tables from before their triggers, and updates captured rows.
struct CaptureAdditions {
    let pg: PostgresConnection
    let record: ServedRecord

    /// Returns new columns' values in older rows, canonical JSON: PostgreSQL's stored one, a literal default or `null`.
    func fills(of columns: [String], _ table: String, _ schema: SyncSchema) throws -> [String: String] {
        guard !columns.isEmpty, let synced = schema.byName[table] else { return [:] }
        let stored = try PostgresCatalog.table(synced, namespace: record.namespace, zoneColumn: record.zoneColumn, pg)
        return try columns.reduce(into: [:]) { $0[$1] = try fill($1, stored) }
    }

    private func fill(_ column: String, _ table: PostgresTable) throws -> String {
        let kind = table.kind(column)
        let type = table.type(column)
        let missing = "(attmissingval::text::\(type)[])[1]"
        // PostgreSQL has no array of arrays, so the value of an array column cannot be read like this.
        let values = try pg.rows(
            """
            SELECT \(kind.json(missing))
            FROM pg_attribute
            WHERE attrelid = to_regclass(\(SQLText.literal(table.name)))
                AND attname = \(SQLText.literal(column)) AND atthasmissing
                AND \(!type.hasSuffix("[]"))
            """)
        if !values.isEmpty { return values[0].text(0) }
        guard let value = table.defaults[column], AdoptTables.isConstant(value) else { return "null" }
        return try pg.rows("SELECT \(kind.json("(\(value))::\(type)"))")[0].text(0)
    }

    /// Captures the rows whose new columns differ from the fill.
    func add(_ columns: [String], _ fills: [String: String], of table: PostgresTable) throws {
        guard !columns.isEmpty else { return }
        try fillCaptured(columns, fills, of: table)
        let differs = columns.map {
            "\(table.kind($0).json(table.column($0, "app_row"))) <> \(SQLText.literal(fills[$0] ?? "null"))"
        }
        let before = columns.reduce(into: [:]) { $0[$1] = fills[$1] ?? "null" }
        try capture(
            table, before: table.rowJSON("app_row", replacing: before), where: differs.joined(separator: " OR "))
    }

    /// Captures all rows of a newly synced table as creations.
    func create(_ table: PostgresTable) throws { try capture(table, before: "NULL", where: "true") }

    private func capture(_ table: PostgresTable, before: String, where condition: String) throws {
        let zone = CaptureTriggers.zone(of: "app_row", table)
        try pg.execute(
            """
            INSERT INTO tidemark.capture (zone, tbl, key, before, after)
            SELECT \(zone), \(table.literal), \(table.keyJSON("app_row")), \(before), \(table.rowJSON("app_row"))
            FROM \(table.name) AS app_row
            JOIN tidemark.zone AS served ON served.zone = \(zone)
            WHERE \(condition)
            """)
    }

    /// Records this transaction as one of another program, after all committed ones.
    func recordOutside() throws {
        try pg.execute(
            """
            INSERT INTO tidemark.outside (zone, xid)
            SELECT DISTINCT zone, xid
            FROM tidemark.capture
            WHERE xid = pg_current_xact_id()
            ON CONFLICT DO NOTHING
            """)
    }

    /// Adds the new columns with their fills to rows that were captured before.
    private func fillCaptured(_ columns: [String], _ fills: [String: String], of table: PostgresTable) throws {
        let members = columns.map { "\(JSONText.quote(WireName.member(column: $0))):\(fills[$0] ?? "null")" }
        let text = SQLText.literal(members.joined(separator: ",") + "}")
        let withFills = { (image: String) in
            "CASE WHEN \(image) = '{}' THEN '{' || \(text) ELSE left(\(image), -1) || ',' || \(text) END"
        }
        try pg.execute(
            """
            UPDATE tidemark.capture
            SET before = \(withFills("before")), after = \(withFills("after"))
            WHERE tbl = \(table.literal)
            """)
    }

    /// Renames columns in captured rows and in the log.
    func rename(_ renames: [TableDifference.Rename], of table: String) throws {
        for rename in renames {
            let old = SQLText.literal(rename.old)
            let new = SQLText.literal(rename.new)
            let oldMember = SQLText.literal(WireName.member(column: rename.old))
            let newMember = SQLText.literal(WireName.member(column: rename.new))
            let name = "CASE member.key WHEN \(oldMember) THEN \(newMember) ELSE member.key END"
            let withNewName = { (image: String) in
                """
                CASE WHEN \(image) IS NOT NULL THEN (
                    SELECT '{' || coalesce(string_agg(
                        tidemark.quote(\(name)) || ':' || member.value::text, ',' ORDER BY member.ordinality), '') || '}'
                    FROM json_each(\(image)::json) WITH ORDINALITY AS member) END
                """
            }
            try pg.execute(
                """
                UPDATE tidemark.capture
                SET before = \(withNewName("before")), after = \(withNewName("after"))
                WHERE tbl = \(SQLText.literal(table));
                UPDATE tidemark.log
                SET columns = (
                    SELECT '[' || string_agg(
                        tidemark.quote(CASE name WHEN \(old) THEN \(new) ELSE name END), ',' ORDER BY place) || ']'
                    FROM json_array_elements_text(columns::json) WITH ORDINALITY AS logged (name, place))
                WHERE tbl = \(SQLText.literal(table)) AND columns IS NOT NULL AND columns <> '[]';
                UPDATE tidemark.log
                SET replaced = \(withNewName("replaced"))
                WHERE tbl = \(SQLText.literal(table)) AND replaced IS NOT NULL
                """)
        }
    }

    /// Deletes captured rows of dropped tables, and of tables with possible uncaptured changes.
    func discard(_ tables: [String]) throws {
        guard !tables.isEmpty else { return }
        try pg.query("DELETE FROM tidemark.capture WHERE tbl = ANY ($1::text[])", [PostgresArray.quoted(tables)])
    }
}
