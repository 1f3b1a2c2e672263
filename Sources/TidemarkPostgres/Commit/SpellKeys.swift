import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// The spelling that PostgreSQL stores of keys and values.
///
/// PostgreSQL compares keys by their type: an upper-case UUID finds the lower-case one, '1.0' finds the numeric 1.00.
/// The log compares keys as text, so another spelling would hide contentions. A key with only one possible spelling,
/// such as most keys from devices, costs no query.
extension PostgresTable {
    var ways: TableWays {
        TableWays(
            spelledColumns: Set(table.columns.indices.filter { hasSpellings(table.columns[$0].name) }),
            computedColumns: generated
        ) { key in mayRespell(key) }
    }

    private func mayRespell(_ key: String) -> Bool {
        guard table.keyKind != .integer else { return false }
        return zip(table.key, Value.parts(ofKey: key)).contains { column, value in
            switch (kind(column), type(column), value) {
            case (.integer, _, .integer), (.boolean, _, .integer), (.real, _, .real), (.bytes, _, .blob),
                (.text, "text", .text), (.text, "character varying", .text):
                false
            case (.text, "uuid", .text(let text)): !Self.isCanonicalUUID(text)
            default: true
            }
        }
    }

    private static func isCanonicalUUID(_ text: String) -> Bool {
        let bytes = Array(text.utf8)
        return bytes.count == 36
            && bytes.enumerated().allSatisfy { index, byte in
                switch (index, byte) {
                case (8, UInt8(ascii: "-")), (13, UInt8(ascii: "-")), (18, UInt8(ascii: "-")), (23, UInt8(ascii: "-")):
                    true
                case (8, _), (13, _), (18, _), (23, _): false
                case (_, UInt8(ascii: "0")...UInt8(ascii: "9")), (_, UInt8(ascii: "a")...UInt8(ascii: "f")): true
                default: false
                }
            }
    }
}

extension PostgresTransaction {
    func spelledKeys(_ changes: [RecordID: Operation]) throws -> [RecordID: String] {
        var stored: [RecordID: String] = [:]
        for (place, changes) in Dictionary(grouping: changes, by: \.key.table).sorted(by: { $0.key < $1.key }) {
            let table = try table(place)
            let names = changes.map(\.key)
            guard let keys = try storedKeys(names, changes.map(\.value), of: table) else {
                throw try unreadableKey(among: names, of: table)
            }
            stored.merge(keys) { $1 }
        }
        return stored
    }

    /// Returns the other spellings of keys of a table; nil if a key is invalid for its column's type.
    private func storedKeys(_ names: [RecordID], _ operations: [Operation], of table: PostgresTable) throws
        -> [RecordID: String]?
    {
        var sent = SentRows(table)
        for name in names { try sent.begin(key: name.key) }
        // A key without a row is parsed too, because it may be invalid.
        let parts = table.table.key.enumerated().map { index, column in
            table.kind(column).json("sent.k\(index)::\(table.wholeType(column))")
        }
        let canonical = parts.count == 1 ? parts[0] : "'[' || \(parts.joined(separator: " || ',' || ")) || ']'"
        let respelled = table.table.key.enumerated().filter { table.kind($1) == .text }.map { index, column in
            "(sent.k\(index)::\(table.wholeType(column)))::text COLLATE \"C\" <> sent.k\(index)"
        }
        let rows = try spelled(
            """
            SELECT spelled.n, coalesce(spelled.stored, spelled.canonical)
            FROM (
                SELECT sent.n, sent.key, sent.operation, \(canonical) AS canonical,
                    CASE WHEN app_row.tableoid IS NOT NULL THEN \(table.keyJSON("app_row")) END AS stored,
                    \(respelled.isEmpty ? "false" : "(\(respelled.joined(separator: " OR ")))") AS is_respelled
                FROM \(sent.derivedTable(["key": "text", "operation": "text"]))
                LEFT JOIN \(table.name) AS app_row ON \(SentRows.matches(table, "app_row"))
                WHERE $1::text IS NOT NULL
            ) AS spelled
            WHERE CASE WHEN coalesce(spelled.stored, spelled.canonical) <> spelled.key
                THEN spelled.is_respelled OR spelled.stored IS NOT NULL AND spelled.operation <> 'create' END
            """,
            [
                zone, PostgresArray.quoted(names.map(\.key)), PostgresArray.quoted(operations.map(\.rawValue)),
            ] + sent.parameters())
        guard let rows else { return nil }
        return Dictionary(uniqueKeysWithValues: rows.map { (names[Int($0.integer(0) ?? 0)], $0.text(1)) })
    }

    /// Runs a query that casts values of a request; nil if one of them is invalid for its type.
    private func spelled(_ sql: String, _ parameters: [String?]) throws -> PostgresRows? {
        do { return try undoable { try pg.query(sql, parameters) }.get() } catch let failure as PostgresFailure
            where pg.isUsable && failure.isAboutValues
        { return nil }
    }

    /// Returns the error for the first key that is invalid for its columns' types.
    private func unreadableKey(among names: [RecordID], of table: PostgresTable) throws -> TidemarkError {
        var suspects = names.sorted { $0.key < $1.key }
        while suspects.count > 1 {
            let half = Array(suspects[..<(suspects.count / 2)])
            let isReadable = try storedKeys(half, half.map { _ in .update }, of: table) != nil
            suspects = isReadable ? Array(suspects[half.count...]) : half
        }
        return TidemarkError(
            .invalidKey, "A key cannot be read as its columns' types in PostgreSQL.",
            fix: "Give the record a key that is valid for the columns' types.",
            place: .init(table: table.table.name, key: suspects[0].key))
    }

    func spelledValues(_ values: [ColumnValue]) throws -> [Value?] {
        var stored: [Value?] = values.map { _ in nil }
        let groups = Dictionary(grouping: values.indices) { [values[$0].table, values[$0].column] }
        for (place, indexes) in groups.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
            guard ways.tables[place[0]].spelledColumns.contains(place[1]) else {
                for index in indexes { stored[index] = values[index].value }
                continue
            }
            let table = try table(place[0])
            let column = table.table.columns[place[1]].name
            let texts = try indexes.map { try PostgresText.convert(values[$0].value, table.kind(column)).get() }
            let rows = try spelled(
                """
                SELECT \(table.kind(column).json("sent.value::\(table.wholeType(column))"))
                FROM unnest($1::text[]) WITH ORDINALITY AS sent (value, n)
                ORDER BY sent.n
                """,
                [PostgresArray.nullable(texts)])
            guard let rows else { continue }
            for (index, row) in zip(indexes, rows.map { $0 }) {
                stored[index] = Value.parts(ofKey: "[\(row.text(0))]").first
            }
        }
        return stored
    }
}
