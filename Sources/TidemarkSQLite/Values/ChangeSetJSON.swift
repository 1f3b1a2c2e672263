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
        let name =
            switch source.table.keyKind {
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
        let statement = try db.cachedStatement(
            sql: """
                SELECT group_concat(key) FILTER (WHERE operation = 'create') AS creates,
                    group_concat(key) FILTER (WHERE operation = 'update') AS updates,
                    group_concat(key) FILTER (WHERE operation = 'delete') AS deletes,
                    group_concat(\(name) || ':{' || members || '}') FILTER (WHERE members IS NOT NULL) AS attributes
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
}
