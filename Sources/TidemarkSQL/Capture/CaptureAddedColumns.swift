package import GRDB
package import TidemarkCore

/// Captures writes to new columns that preceded the renewal of the triggers.
///
/// A migration often adds a column and fills it at once, but the engine renews the triggers only when it next opens the
/// file. Rows whose new columns differ from the backfill were changed in between, so they are captured as updates.
package struct CaptureAddedColumns {
    private let table: SyncedTable
    private let before: [String: String]
    private let condition: String

    /// Creates a capture of the rows `t` that meet a condition, or differ from `before`: backfills by column, as SQL.
    package init(_ table: SyncedTable, before: [String: String], where condition: String? = nil) {
        self.table = table
        self.before = before
        let differs = before.sorted { $0.key < $1.key }.map {
            "tidemark_key(t.\(SQLText.name($0.key))) IS NOT tidemark_key(\($0.value))"
        }
        self.condition = condition ?? differs.joined(separator: " OR ")
    }

    /// Captures the rows; the capture table must have the columns already.
    package func run(_ db: Database) throws {
        let old = table.columns.map { before[$0.name] ?? "t.\(SQLText.name($0.name))" }
        try CaptureRows.capture("update", table, old: old, where: condition, in: db)
    }
}

/// Creates capture entries for rows written before capture was installed.
package enum CaptureRows {
    package static func captureAsCreated(_ table: SyncedTable, where condition: String = "true", in db: Database) throws
    {
        let old = table.columns.map { _ in "NULL" }
        try capture("insert", table, old: old, where: condition, in: db)
    }

    static func capture(_ kind: String, _ table: SyncedTable, old: [String], where condition: String, in db: Database)
        throws
    {
        let name = SQLText.name(table.name)
        try db.execute(
            sql: """
                INSERT INTO tidemark_capture (tbl, base)
                SELECT \(SQLText.literal(table.name)), state.revision
                FROM tidemark_state AS state, main.\(name) AS t
                WHERE \(condition)
                """)
        let columns = SQLText.names(["seq", "kind"] + CaptureTables.shadowColumns(table))
        let values = old + table.columns.map { "t.\(SQLText.name($0.name))" }
        try db.execute(
            sql: """
                INSERT INTO \(SQLText.name(CaptureTables.shadow(table))) (\(columns))
                SELECT (SELECT max(seq) FROM tidemark_capture) - count(*) OVER () + row_number() OVER (),
                    '\(kind)', \(values.joined(separator: ", "))
                FROM main.\(name) AS t
                WHERE \(condition)
                """)
    }
}

package enum DefaultValue {
    /// Returns a literal default in canonical JSON, else `null`: computed values of a rebuilt table count as edits.
    package static func json(_ column: SyncedTable.Column, in db: Database) throws -> String {
        guard let literal = column.defaultSQL, isLiteral(literal) else { return "null" }
        let type = column.affinity == "BLOB" ? "" : column.affinity
        try db.execute(
            sql: """
                CREATE TEMP TABLE tidemark_default (value \(type) DEFAULT \(literal));
                INSERT INTO temp.tidemark_default DEFAULT VALUES;
                """)
        let json = try String.fetchOne(db, sql: "SELECT tidemark_key(value) FROM temp.tidemark_default")
        try db.execute(sql: "DROP TABLE temp.tidemark_default")
        return json ?? "null"
    }

    /// Whether a default is a number, string, blob or keyword, not an expression.
    static func isLiteral(_ sql: String) -> Bool {
        let number = /[+\-]?\s*([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+\-]?[0-9]+)?/
        let other = /(?i)null|true|false|0x[0-9a-f]+|x'[0-9a-f]*'|'([^']|'')*'|"([^"]|"")*"/
        return sql.wholeMatch(of: number) != nil || sql.wholeMatch(of: other) != nil
    }
}
