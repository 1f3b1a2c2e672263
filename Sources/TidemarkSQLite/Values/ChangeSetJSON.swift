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
            self.table = table
            self.sql = sql
            self.arguments = arguments
        }
    }

    /// A table's part of a change set.
    package struct Part: Sendable {
        /// The table.
        package let table: String
        /// Its records, JSON.
        package let json: String
    }

    /// The parts of a table in several change sets, by their numbers: one statement.
    ///
    /// `sets` are what stands behind `FROM`: rows `p` with a column `ord`, the number; `sql` is a
    /// like ``Source/sql`` about one of them.
    package static func parts(
        _ table: SyncedTable,
        _ sql: String,
        of sets: String,
        _ arguments: StatementArguments,
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
                    FROM \(sets)
                    """
            ),
            arguments: arguments
        )
        return try rows.compactMap { row in
            try (row.value(1) as String?).map { try (row.value(0), Part(table: table.name, json: $0)) }
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
    package static func render(envelope: [String], _ sources: [Source], in db: Database) throws -> String {
        var text = ""
        try render(envelope: envelope, sources, in: db) { _, piece in text += piece }
        return text
    }

    /// Renders a change set that may be large, ``TextPieces`` of it at a time.
    ///
    /// - Returns: How many records it has.
    @discardableResult package static func render(
        envelope: [String],
        _ sources: [Source],
        in db: Database,
        take: @escaping (_ number: Int, _ piece: String) throws -> Void
    ) throws -> Int {
        var pieces = TextPieces(take)
        var count = 0
        let types = sources.map { quote($0.table.name) }.joined(separator: ",")
        try pieces.append("{\((envelope + [#""types":[\#(types)]"#]).joined(separator: ","))".utf8)
        for source in sources {
            try pieces.append(",\(quote(source.table.name)):".utf8)
            count += try append(source, to: &pieces, in: db)
        }
        try pieces.append("}".utf8)
        try pieces.finish()
        return count
    }

    /// A JSON string of text that contains no control characters but may contain quotes.
    package static func quote(_ text: String) -> String {
        var output: [UInt8] = []
        Array(text.utf8).withUnsafeBufferPointer { CanonicalJSON.append(text: $0, to: &output) }
        return String(decoding: output, as: UTF8.self)
    }

    /// Adds a table's part, and counts its records.
    ///
    /// The lists of keys stand before the attributes. So attributes wait until all keys were seen;
    /// what is more than a piece does not wait, but is read again.
    private static func append(_ source: Source, to pieces: inout TextPieces, in db: Database) throws -> Int {
        let statement = try db.cachedStatement(
            sql: """
                SELECT key, operation, \(name(of: source.table)), members
                FROM (SELECT * FROM (\(source.sql)) ORDER BY length(key), key)
                """
        )
        var rows = try Row.fetchCursor(statement, arguments: source.arguments)
        var lists = KeyLists()
        var waiting = [UInt8]()
        var seen = 0
        while try rows.next() != nil {
            let texts = RowTexts(statement)
            lists.append(texts[0], to: texts[1])
            guard waiting.count < TextPieces.bytesTarget else { continue }
            append(texts, to: &waiting)
            seen += 1
        }
        try pieces.append(#"{"#.utf8 + lists.text + #","attributes":{"#.utf8)
        try pieces.append(waiting.dropFirst())
        if seen < lists.count {
            rows = try Row.fetchCursor(statement, arguments: source.arguments)
            while try rows.next() != nil {
                seen -= 1
                guard seen < 0 else { continue }
                waiting.removeAll(keepingCapacity: true)
                append(RowTexts(statement), to: &waiting)
                try pieces.append(waiting)
            }
        }
        try pieces.append("}}".utf8)
        return lists.count
    }

    /// A record's attributes behind a comma; nothing where it has none.
    private static func append(_ texts: RowTexts, to text: inout [UInt8]) {
        guard !texts.isNull(3) else { return }
        text.append(UInt8(ascii: ","))
        text += texts[2]
        text += ":{".utf8
        text += texts[3]
        text.append(UInt8(ascii: "}"))
    }

    /// The keys of what was created, updated and deleted, and the attributes: aggregates, which are
    /// NULL where there is nothing.
    private static func lists(of table: SyncedTable) -> [String] {
        KeyLists.operations.map { "group_concat(key) FILTER (WHERE operation = '\($0)')" } + [
            "group_concat(\(name(of: table)) || ':{' || members || '}') FILTER (WHERE members IS NOT NULL)"
        ]
    }

    /// A key as the name of its attributes.
    private static func name(of table: SyncedTable) -> String {
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
    }
}

/// The keys of what was created, updated and deleted.
private struct KeyLists {
    static let operations = ["create", "update", "delete"]

    private(set) var count = 0
    private var lists = [[UInt8]](repeating: [], count: operations.count)

    mutating func append(_ key: UnsafeBufferPointer<UInt8>, to operation: UnsafeBufferPointer<UInt8>) {
        count += 1
        for (index, name) in Self.operations.enumerated() where name.utf8.elementsEqual(operation) {
            if !lists[index].isEmpty { lists[index].append(UInt8(ascii: ",")) }
            lists[index] += key
        }
    }

    /// The lists as the members of an object.
    var text: [UInt8] {
        let members = zip(Self.operations, lists).map { name, keys in
            Array("\"\(name)\":[".utf8) + keys + [UInt8(ascii: "]")]
        }
        return Array(members.joined(separator: [UInt8(ascii: ",")]))
    }
}
