package import GRDB
package import TidemarkCore

/// Writes a change set in the form of the protocol.
///
/// The rows become JSON inside SQLite, one query a table; Swift puts the envelope around them.
package enum ChangeSetJSON {
    /// Where the records of one table come from.
    package struct Source {
        /// The table.
        package let table: SyncedTable
        /// A query that yields `key` in canonical JSON, `operation`, and `members`: the record's
        /// attributes as JSON without braces, or NULL when it has none.
        package let sql: String
        /// The query's arguments.
        package let arguments: StatementArguments

        /// Makes a source.
        package init(table: SyncedTable, sql: String, arguments: StatementArguments) {
            (self.table, self.sql, self.arguments) = (table, sql, arguments)
        }
    }

    /// A table's part of a change set.
    package struct Part: Sendable {
        /// The table.
        package let table: String
        /// Its records, JSON.
        package let json: String
    }

    /// The parts of a table in the change sets of a segment, by their numbers: one statement.
    ///
    /// `sql` is a query like ``Source/sql`` about change set `p`, a row of `temp.tidemark_planned`.
    package static func parts(
        _ table: SyncedTable,
        _ sql: String,
        of segment: StagedSets,
        in db: Database
    ) throws -> [(ord: Int, part: Part)] {
        let lists = lists(of: table).map { "coalesce(\($0), '')" }
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT p.ord, (
                        SELECT iif(count(*) = 0, NULL, '{"create":[' || \(lists[0]) || '],"update":[' || \(lists[1])
                            || '],"delete":[' || \(lists[2]) || '],"attributes":{' || \(lists[3]) || '}}')
                        FROM (SELECT * FROM (\(sql)) ORDER BY length(key), key)) AS json
                    FROM temp.tidemark_planned AS p WHERE p.segment = ?1
                    """
            ),
            arguments: [segment.number]
        )
        return rows.compactMap { row in
            (row[1] as String?).map { (row[0], Part(table: table.name, json: $0)) }
        }
    }

    /// A change set of its envelope and its tables' parts.
    package static func text(_ envelope: [String], _ parts: [Part]) -> String {
        let names = parts.map { quote($0.table) }
        let members = zip(names, parts).map { "\($0):\($1.json)" }
        let types = #""types":[\#(names.joined(separator: ","))]"#
        return "{\((envelope + [types] + members).joined(separator: ","))}"
    }

    /// Renders a change set.
    ///
    /// `envelope` are the members in front of `types`, each as `"name":json`.
    package static func render(envelope: [String], _ sources: [Source], in db: Database) throws
        -> String
    {
        let types = sources.map { quote($0.table.name) }.joined(separator: ",")
        // What is added may be large, and a text that is made of others is a copy of them.
        var text = "{" + (envelope + [#""types":[\#(types)]"#]).joined(separator: ",")
        for source in sources {
            text += ",\(quote(source.table.name)):"
            try append(source, to: &text, in: db)
        }
        text += "}"
        return text
    }

    /// Whether a source yields any record.
    package static func hasRecords(_ source: Source, in db: Database) throws -> Bool {
        try Bool.fetchOne(
            db.cachedStatement(sql: "SELECT EXISTS (\(source.sql))"),
            arguments: source.arguments
        ) ?? false
    }

    /// A JSON string of text that contains no control characters but may contain quotes.
    package static func quote(_ text: String) -> String {
        var output: [UInt8] = []
        Array(text.utf8).withUnsafeBufferPointer { CanonicalJSON.append(text: $0, to: &output) }
        return String(decoding: output, as: UTF8.self)
    }

    private static func append(_ source: Source, to text: inout String, in db: Database) throws {
        let lists = lists(of: source.table)
        let statement = try db.cachedStatement(
            sql: """
                SELECT \(lists.joined(separator: ", "))
                FROM (SELECT * FROM (\(source.sql)) ORDER BY length(key), key)
                """
        )
        let rows = try Row.fetchCursor(statement, arguments: source.arguments)
        while try rows.next() != nil {
            let lists = RowTexts(statement)
            text.append([
                .init(#"{"create":["#), lists[0], .init(#"],"update":["#), lists[1],
                .init(#"],"delete":["#), lists[2], .init(#"],"attributes":{"#), lists[3],
                .init("}}"),
            ])
        }
    }

    /// The keys of what was created, updated and deleted, and the attributes: aggregates, which are
    /// NULL where there is nothing.
    private static func lists(of table: SyncedTable) -> [String] {
        let name =
            switch table.keyKind {
            case .integer: "'\"' || key || '\"'"
            // A blob in a TEXT column is no JSON string, and has to become one; text that could be
            // taken for that is tagged as text.
            case .text:
                """
                CASE WHEN key LIKE '"{\\"$%' THEN json_quote(tidemark_tagged(key))
                    WHEN key LIKE '"%' THEN key ELSE json_quote(key) END
                """
            case .general: "json_quote(key)"
            }
        return ["create", "update", "delete"].map {
            "group_concat(key) FILTER (WHERE operation = '\($0)')"
        } + ["group_concat(\(name) || ':{' || members || '}') FILTER (WHERE members IS NOT NULL)"]
    }
}
