import GRDB
import TidemarkCore
import TidemarkSQL

/// The views `tidemark_state_T`: by table, the records that are not synced, with the columns that `Docs/APP.md` names.
///
/// A conflict comes before an edit, and an edit that no request has yet comes before one that a request has. An own
/// column with the name of a key column gets the prefix `tidemark_`.
///
/// The views are plain SQL of SQLite 3.31, because a SQLite that cannot parse a view cannot open the file. They cast
/// the keys to the columns' affinity, because SQLite joins without an index otherwise. SQL alone cannot read a binary
/// key from JSON, so the key columns are NULL then, and `tidemark_key` has the key.
struct StateViews {
    private static let prefix = "tidemark_state_"

    static func name(of table: SyncedTable) -> String { prefix + table.name }

    /// Creates or renews the views of a schema, and drops those of other tables.
    static func install(_ schema: SyncSchema, in db: Database) throws {
        let present = try views(in: db)
        let wanted = schema.tables.map { (name: name(of: $0), sql: sql($0)) }
        try drop(Set(present.keys).subtracting(wanted.map(\.name)), in: db)
        for view in wanted where present[view.name] != view.sql {
            try drop([view.name], in: db)
            try db.execute(sql: view.sql)
        }
    }

    /// Drops the view of a table whose capture goes: SQLite renames nothing in a file with a broken view.
    static func forget(_ table: String, in db: Database) throws { try drop([prefix + table], in: db) }

    /// Whether a file has the view of a table with its key; not so if the app has just altered the table.
    static func hasView(of table: SyncedTable, in db: Database) throws -> Bool {
        let name = name(of: table)
        guard try db.viewExists(name) else { return false }
        return try db.columns(in: name).map(\.name).starts(with: table.key)
    }

    private static func views(in db: Database) throws -> [String: String] {
        try Row.fetchAll(
            db,
            sql: """
                SELECT name, sql FROM main.sqlite_master
                WHERE type = 'view' AND name LIKE 'tidemark~_state~_%' ESCAPE '~'
                """
        ).reduce(into: [:]) { try $0[$1.value("name") as String] = $1.value("sql") as String }
    }

    private static func drop(_ names: Set<String>, in db: Database) throws {
        for name in names.sorted() { try db.execute(sql: "DROP VIEW IF EXISTS main.\(SQLText.name(name))") }
    }

    // MARK: The statement

    /// Returns the name of an own column of a table's view.
    static func column(_ name: String, of table: SyncedTable) -> String {
        table.key.contains { $0.lowercased() == name } ? "tidemark_\(name)" : name
    }

    private static func sql(_ table: SyncedTable) -> String {
        let key = table.key.map(SQLText.name).joined(separator: ", ")
        let own = ["state", "since", "conflict"].map { column($0, of: table) }.joined(separator: ", ")
        let literal = SQLText.literal(table.name)
        let recordKey = parts(of: table) { json($0, of: table, in: "record.key") }
        let pendingKey = parts(of: table) { json($0, of: table, in: "pending.key") }
        let isIn = { (names: String, list: String) in "coalesce((\(names)) IN (SELECT \(key) FROM \(list)), 0)" }
        let captured = captured(table)
        return """
            CREATE VIEW \(SQLText.name(name(of: table))) (\(key), \(own), tidemark_key) AS
            WITH parked (\(key), tidemark_key, tidemark_number) AS (
                SELECT \(recordKey), record.key, min(parked_set.number)
                FROM tidemark_conflict_record AS record JOIN tidemark_conflict AS parked_set ON parked_set.id = record.id
                WHERE record.tbl = \(literal) AND record.operation <> 'unchanged' AND parked_set.kind = 'refused'
                GROUP BY record.key)
            SELECT \(table.key.map { "parked." + SQLText.name($0) }.joined(separator: ", ")), 'conflict',
                CAST(strftime('%s', parked_set.parked) AS INTEGER), parked_set.id, parked.tidemark_key
            FROM parked JOIN tidemark_conflict AS parked_set ON parked_set.number = parked.tidemark_number
            UNION ALL
            SELECT DISTINCT \(key), 'waiting', NULL, NULL, NULL FROM \(captured) WHERE NOT \(isIn(key, "parked"))
            UNION ALL
            SELECT \(pendingKey), CASE WHEN changeset.wire IS NULL THEN 'waiting' ELSE 'sending' END,
                changeset.time / 1000000, NULL, pending.key
            FROM (SELECT key, max(seq) AS seq FROM tidemark_outbox WHERE tbl = \(literal) GROUP BY key) AS pending
                JOIN tidemark_changeset AS changeset ON changeset.seq = pending.seq
            WHERE NOT \(isIn(pendingKey, captured)) AND NOT \(isIn(pendingKey, "parked"))
            """
    }

    /// Returns the keys of captured rows, with repetitions, as a subquery that SQLite can search for one key.
    static func captured(_ table: SyncedTable) -> String {
        let sides = [("new_", "delete"), ("old_", "insert")].map { side, other in
            let key = table.key.map { column in
                "\(cast(SQLText.name(side + column), to: affinity(of: column, table))) AS \(SQLText.name(column))"
            }
            return """
                SELECT \(key.joined(separator: ", "))
                FROM \(SQLText.name(CaptureTables.shadow(table))) WHERE kind <> '\(other)'
                """
        }
        return "(\(sides.joined(separator: " UNION ALL ")))"
    }

    /// Returns the key columns of a row, each in the affinity of the table's column.
    private static func parts(of table: SyncedTable, _ value: (String) -> String) -> String {
        table.key.map { cast(value($0), to: affinity(of: $0, table)) }.joined(separator: ", ")
    }

    private static func cast(_ value: String, to affinity: String) -> String {
        // A cast to NUMERIC would make numbers of dates.
        ["BLOB", "NUMERIC"].contains(affinity) ? value : "CAST(\(value) AS \(affinity))"
    }

    /// Returns a key column's value from a key in canonical JSON.
    private static func json(_ name: String, of table: SyncedTable, in key: String) -> String {
        if table.keyKind == .integer { return key }
        let path = table.key.count == 1 ? "'$'" : "'$[\(table.key.firstIndex(of: name) ?? 0)]'"
        let value = "json_extract(\(key), \(path))"
        guard ["BLOB", "NUMERIC"].contains(affinity(of: name, table)) else { return value }
        return "CASE WHEN json_type(\(key), \(path)) <> 'object' THEN \(value) END"
    }

    private static func affinity(of name: String, _ table: SyncedTable) -> String {
        if table.keyKind == .integer { return "INTEGER" }
        return table.columns.first { $0.name == name }?.affinity ?? "BLOB"
    }
}
