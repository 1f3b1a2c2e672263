import GRDB
import TidemarkCore
import TidemarkServer
import TidemarkSQLite

/// Writes a change set in the form of the protocol. The rows become JSON inside SQLite, one query a table; Swift
/// puts the envelope around them.
enum ChangeSetJSON {
    /// What stands in front of the tables.
    struct Header {
        let id: String?
        var revision: Int64?
        var reasons: [ConflictReason]?
    }

    /// A query that yields `key`, `operation` and `members`: the record's attributes without braces.
    struct Source {
        let table: SyncedTable
        let sql: String
        var arguments: StatementArguments

        /// What the last commit changed.
        ///
        /// - Parameter authorOf: The staged change set whose temporary ids to name, for its author's copy.
        init(reduced table: SyncedTable, revision: Int64, authorOf ord: Int?) {
            self.table = table
            let old = "CASE WHEN s.old_key IS NULL THEN '' ELSE '\"__oldId__\":' || s.old_key || ',' END"
            sql = """
                SELECT r.key, r.operation, \(ord == nil ? "''" : old) || '"revision":' || ?2
                    || CASE WHEN r.attributes = '{}' THEN '' ELSE ',' || substr(r.attributes, 2, length(r.attributes) - 2) END AS members
                FROM temp.tidemark_reduced AS r
                LEFT JOIN temp.tidemark_staged AS s ON s.ord = ?3 AND s.tbl = r.tbl AND s.key = r.key
                WHERE r.tbl = ?1
                """
            arguments = [table.name, revision, ord]
        }

        /// The records listed in `temp.tidemark_truth`, as they are now.
        init(truth table: SyncedTable) {
            self.table = table
            let object = RowJSON.object(table.valueColumns.map(\.name), prefix: "t.")
            sql = """
                SELECT w.key, CASE WHEN t.\(SQLText.name(table.key[0])) IS NULL THEN 'delete' ELSE 'update' END AS operation,
                    '"revision":' || coalesce((SELECT max(revision) FROM tidemark_log AS l WHERE l.tbl = w.tbl AND l.key = w.key),
                        (SELECT adopted FROM tidemark_zone))
                    || CASE WHEN \(object) = '{}' THEN '' ELSE ',' || substr(\(object), 2, length(\(object)) - 2) END AS members
                FROM temp.tidemark_truth AS w LEFT JOIN main.\(SQLText.name(table.name)) AS t
                    ON \(KeySQL.match(table, key: "w.key", alias: "t."))
                WHERE w.tbl = ?1
                """
            arguments = [table.name]
        }
    }

    /// Renders a change set.
    static func render(_ header: Header, _ sources: [Source], in db: Database) throws -> String {
        var parts: [String] = []
        if let id = header.id { parts.append(#""id":"\#(id)""#) }
        if let revision = header.revision { parts.append(#""revision":\#(revision)"#) }
        parts.append(#""conflict":\#(header.reasons != nil)"#)
        if let reasons = header.reasons { parts.append(#""reasons":\#(try json(reasons, in: db))"#) }
        let types = sources.map { "\"\($0.table.name)\"" }.joined(separator: ",")
        parts.append(#""types":[\#(types)]"#)
        for source in sources {
            parts.append("\"\(source.table.name)\":\(try render(source, in: db))")
        }
        return "{\(parts.joined(separator: ","))}"
    }

    private static func render(_ source: Source, in db: Database) throws -> String {
        let name =
            switch source.table.keyKind {
            case .integer: "'\"' || key || '\"'"
            case .text: "key"
            case .general: "json_quote(key)"
            }
        let row = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT group_concat(key) FILTER (WHERE operation = 'create') AS creates,
                        group_concat(key) FILTER (WHERE operation = 'update') AS updates,
                        group_concat(key) FILTER (WHERE operation = 'delete') AS deletes,
                        group_concat(\(name) || ':{' || members || '}') FILTER (WHERE operation <> 'delete') AS attributes
                    FROM (SELECT * FROM (\(source.sql)) ORDER BY length(key), key)
                    """), arguments: source.arguments)
        let list = { (column: String) in "[\(row?[column] as String? ?? "")]" }
        return #"{"create":\#(list("creates")),"update":\#(list("updates")),"delete":\#(list("deletes")),"#
            + #""attributes":{\#(row?["attributes"] as String? ?? "")}}"#
    }

    private static func json(_ reasons: [ConflictReason], in db: Database) throws -> String {
        let items = try reasons.map { reason in
            let columns = try reason.columns.map { try quote($0, in: db) }
            let key = reason.key.isEmpty ? "" : #""key":\#(reason.key),"#
            return #"{"table":\#(try quote(reason.table, in: db)),\#(key)"#
                + #""columns":[\#(columns.joined(separator: ","))],"#
                + #""rule":"\#(reason.rule)","message":\#(try quote(reason.message, in: db))}"#
        }
        return "[\(items.joined(separator: ","))]"
    }

    private static func quote(_ text: String, in db: Database) throws -> String {
        try String.fetchOne(db.cachedStatement(sql: "SELECT tidemark_key(?)"), arguments: [text]) ?? "null"
    }
}
