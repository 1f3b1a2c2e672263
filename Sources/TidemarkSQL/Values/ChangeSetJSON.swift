package import GRDB
package import TidemarkCore

/// Writes change sets in the protocol's JSON: SQLite converts the rows, a query per table; Swift adds the envelope.
package enum ChangeSetJSON {
    package struct Source {
        package let table: SyncedTable
        /// A query for `key` in canonical JSON, `operation`, and `members`: attributes without braces, or NULL.
        package let sql: String
        package let arguments: StatementArguments

        package init(table: SyncedTable, sql: String, arguments: StatementArguments) {
            self.table = table
            self.sql = sql
            self.arguments = arguments
        }
    }

    package struct Part: Sendable {
        package let table: String
        package let json: String
    }

    /// Renders a table's parts of the change sets `p.ord`, rows of the FROM clause `sets`, by a query as in a source.
    package static func parts(
        _ table: SyncedTable, sql: String, of sets: String, arguments: StatementArguments, in db: Database
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
                    """),
            arguments: arguments)
        return try rows.compactMap { row in
            try (row.value(1) as String?).map { try (row.value(0), Part(table: table.name, json: $0)) }
        }
    }

    package static func text(_ envelope: [String], _ parts: [Part]) -> String {
        let names = parts.map { JSONText.quote(WireName.member(table: $0.table)) }
        let members = zip(names, parts).map { "\($0):\($1.json)" }
        let types = #""types":[\#(names.joined(separator: ","))]"#
        return "{\((envelope + [types] + members).joined(separator: ","))}"
    }

    /// Renders a change set; `envelope` contains the members before `types`, each as `"name":json`.
    package static func render(envelope: [String], _ sources: [Source], in db: Database) throws -> String {
        var text = ""
        try render(envelope: envelope, sources, in: db) { _, piece in text += piece }
        return text
    }

    /// Renders a large change set as ``TextPieces``, and returns the number of its records.
    @discardableResult package static func render(
        envelope: [String], _ sources: [Source], in db: Database,
        take: @escaping (_ number: Int, _ piece: String) throws -> Void
    ) throws -> Int {
        var pieces = TextPieces(take)
        var count = 0
        let types = sources.map { JSONText.quote(WireName.member(table: $0.table.name)) }.joined(separator: ",")
        try pieces.append("{\((envelope + [#""types":[\#(types)]"#]).joined(separator: ","))".utf8)
        for source in sources {
            try pieces.append(",\(JSONText.quote(WireName.member(table: source.table.name))):".utf8)
            count += try append(source, to: &pieces, in: db)
        }
        try pieces.append("}".utf8)
        try pieces.finish()
        return count
    }

    /// Appends a table's part and returns the number of its records; attributes beyond a piece need a second pass.
    private static func append(_ source: Source, to pieces: inout TextPieces, in db: Database) throws -> Int {
        let statement = try db.cachedStatement(
            sql: """
                SELECT key, operation, \(name(of: source.table)), members
                FROM (SELECT * FROM (\(source.sql)) ORDER BY length(key), key)
                """)
        var rows = try Row.fetchCursor(statement, arguments: source.arguments)
        var lists = KeyLists()
        var attributes = [UInt8]()
        var bufferedCount = 0
        while try rows.next() != nil {
            let texts = RowTexts(statement)
            lists.append(texts[0], to: texts[1])
            guard attributes.count < TextPieces.bytesTarget else { continue }
            append(texts, to: &attributes)
            bufferedCount += 1
        }
        try pieces.append(#"{"#.utf8 + lists.text + #","attributes":{"#.utf8)
        try pieces.append(attributes.dropFirst())
        if bufferedCount < lists.count {
            var skipCount = bufferedCount
            rows = try Row.fetchCursor(statement, arguments: source.arguments)
            while try rows.next() != nil {
                skipCount -= 1
                guard skipCount < 0 else { continue }
                attributes.removeAll(keepingCapacity: true)
                append(RowTexts(statement), to: &attributes)
                try pieces.append(attributes)
            }
        }
        try pieces.append("}}".utf8)
        return lists.count
    }

    /// Appends a comma and a record's attributes, if it has any.
    private static func append(_ texts: RowTexts, to text: inout [UInt8]) {
        guard !texts.isNull(3) else { return }
        text.append(UInt8(ascii: ","))
        text += texts[2]
        text += ":{".utf8
        text += texts[3]
        text.append(UInt8(ascii: "}"))
    }

    /// Returns the SQL of the keys by operation, and of the attributes: aggregates, which are NULL without rows.
    private static func lists(of table: SyncedTable) -> [String] {
        KeyLists.operations.map { "group_concat(key) FILTER (WHERE operation = '\($0)')" } + [
            "group_concat(\(name(of: table)) || ':{' || members || '}') FILTER (WHERE members IS NOT NULL)"
        ]
    }

    /// Returns the SQL of a key as the name of its attributes.
    private static func name(of table: SyncedTable) -> String {
        switch table.keyKind {
        case .integer: "'\"' || key || '\"'"
        // A blob in a TEXT column is an object, so its JSON is quoted. Text that looks like such a
        // quoted object is tagged as text.
        case .text:
            """
            CASE WHEN key LIKE '"{\\"$%' THEN json_quote(tidemark_tagged(key))
                WHEN key LIKE '"%' THEN key ELSE json_quote(key) END
            """
        case .general: "json_quote(key)"
        }
    }
}

/// The keys of a table's part by operation.
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

    /// The lists as members of a JSON object.
    var text: [UInt8] {
        let members = zip(Self.operations, lists).map { name, keys in
            Array("\"\(name)\":[".utf8) + keys + [UInt8(ascii: "]")]
        }
        return Array(members.joined(separator: [UInt8(ascii: ",")]))
    }
}
