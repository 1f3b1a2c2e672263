package import GRDB
package import TidemarkCore

/// Captures what was written into new columns before their triggers knew them.
///
/// A migration adds a column and often fills it at once; the triggers are renewed only when the
/// engine looks at the file again. Rows whose new columns are not what everybody else takes them
/// for were changed in between, so they are captured then, as updates.
package struct CaptureAddedColumns {
    private let table: SyncedTable
    private let before: [String: String]
    private let condition: String

    /// Makes a capture of the rows `t` of a table that meet a condition.
    ///
    /// `before` are the values that everybody else takes the added columns for, by name, as SQL
    /// expressions over `t`. Without a condition, rows that differ from them are captured.
    package init(_ table: SyncedTable, before: [String: String], where condition: String? = nil) {
        self.table = table
        self.before = before
        let differs = before.sorted { $0.key < $1.key }.map {
            "tidemark_key(t.\(SQLText.name($0.key))) IS NOT tidemark_key(\($0.value))"
        }
        self.condition = condition ?? differs.joined(separator: " OR ")
    }

    /// Captures the rows, whose shadow has the columns already.
    package func run(_ db: Database) throws {
        let old = table.columns.map { before[$0.name] ?? "t.\(SQLText.name($0.name))" }
        try CaptureRows.capture("update", table, old: old, where: condition, in: db)
    }
}

/// Captures rows that nobody captured when they were written.
package enum CaptureRows {
    /// Captures all rows of a table as created: it has only now become a synced one.
    package static func created(_ table: SyncedTable, where condition: String = "true", in db: Database) throws {
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
                SELECT \(SQLText.literal(table.name)), s.revision
                FROM tidemark_state AS s, main.\(name) AS t WHERE \(condition)
                """
        )
        let columns = SQLText.names(["seq", "kind"] + CaptureTables.shadowColumns(table))
        let values = old + table.columns.map { "t.\(SQLText.name($0.name))" }
        try db.execute(
            sql: """
                INSERT INTO \(SQLText.name(CaptureTables.shadow(table))) (\(columns))
                SELECT (SELECT max(seq) FROM tidemark_capture) - count(*) OVER () + row_number() OVER (),
                    '\(kind)', \(values.joined(separator: ", "))
                FROM main.\(name) AS t WHERE \(condition)
                """
        )
    }
}

/// The value that a row gets in a column which nobody names.
package enum DefaultValue {
    /// The default in canonical JSON, as the column stores it.
    ///
    /// `null` when it is no literal: a column that is added to rows has none but a literal, and
    /// what a rebuilt table computes is captured as an edit.
    package static func json(_ column: SyncedTable.Column, in db: Database) throws -> String {
        guard let literal = column.defaultSQL, isLiteral(literal) else { return "null" }
        let type = column.affinity == "BLOB" ? "" : column.affinity
        try db.execute(
            sql: """
                CREATE TEMP TABLE tidemark_default (value \(type) DEFAULT \(literal));
                INSERT INTO temp.tidemark_default DEFAULT VALUES;
                """
        )
        let json = try String.fetchOne(db, sql: "SELECT tidemark_key(value) FROM temp.tidemark_default")
        try db.execute(sql: "DROP TABLE temp.tidemark_default")
        return json ?? "null"
    }

    /// Whether it is a number, a string, a blob or a word, and nothing that computes.
    static func isLiteral(_ sql: String) -> Bool {
        let number = /[+\-]?\s*([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+\-]?[0-9]+)?/
        let other = /(?i)null|true|false|0x[0-9a-f]+|x'[0-9a-f]*'|'([^']|'')*'|"([^"]|"")*"/
        return sql.wholeMatch(of: number) != nil || sql.wholeMatch(of: other) != nil
    }
}
