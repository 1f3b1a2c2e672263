import Foundation
package import GRDB
import GRDBSQLite
package import TidemarkCore

/// SQL that converts the columns of a row to canonical JSON, in chunks: SQLite functions have at most 127 arguments.
package enum RowJSON {
    /// Returns the SQL of a row's canonical key; `prefix` precedes the names of its columns.
    package static func key(_ table: SyncedTable, prefix: String = "", alias: String = "") -> String {
        let columns = table.key.map { alias + SQLText.name(prefix + $0) }
        return "tidemark_key(\(columns.joined(separator: ", ")))"
    }

    /// Returns the SQL of a JSON object with a member for each column.
    ///
    /// `prefix` precedes the quoted name, for instance `t.`, and `side` precedes the name within the
    /// quotes, for instance `old_`. Where the row has a column under another name, `names` has that one.
    package static func object(
        _ columns: [String], prefix: String = "", side: String = "", names: [String: String] = [:]
    ) -> String {
        let chunks = stride(from: 0, to: columns.count, by: 60).map { start in
            let members = columns[start..<min(start + 60, columns.count)].map { column in
                let name = SQLText.literal(WireName.member(column: column))
                return "\(name), \(prefix)\(SQLText.name(side + (names[column] ?? column)))"
            }
            return "tidemark_members(\(members.joined(separator: ", ")))"
        }
        return "tidemark_object(\(chunks.joined(separator: ", ")))"
    }

    /// Returns SQL that selects the record with a key as a JSON object of its columns except the key.
    package static func current(_ table: SyncedTable, key: String) -> String {
        """
        SELECT \(object(table.valueColumns.map(\.name), prefix: "current_row."))
        FROM main.\(SQLText.name(table.name)) AS current_row
        WHERE \(KeySQL.match(table, key: key, alias: "current_row."))
        """
    }

    /// Returns the SQL of a row's hashed form: columns except the key by name, as two sides may have other orders.
    package static func image(_ table: SyncedTable, prefix: String = "") -> String {
        object(hashedColumns(table), prefix: prefix)
    }

    /// Returns the names of the columns of a row's hashed form, in their order.
    package static func hashedColumns(_ table: SyncedTable) -> [String] {
        let order = { (column: String) in JSONText.quote(WireName.member(column: column)).utf8.dropFirst().dropLast() }
        return table.valueColumns.map(\.name).sorted { order($0).lexicographicallyPrecedes(order($1)) }
    }
}

/// The canonical JSON form of SQLite values, as in ``TidemarkCore/Value``: equal texts mean equal types and values.
///
/// SQLite's own `json_quote` is not exact: it rejects blobs, cuts text at NUL, and prints some doubles that do not
/// round-trip (1,282 of 199,901 random doubles with SQLite 3.40.1 and `%!.17g`).
package enum CanonicalJSON {
    /// Returns the canonical JSON of a column of a statement's present row.
    package static func text(of column: Int, in statement: Statement) -> String {
        // SQLite wants a value of a row to be used by the connection's own thread only, as here.
        let value = sqlite3_column_value(statement.sqliteStatement, Int32(column))
        if sqlite3_value_type(value) == SQLITE_INTEGER { return String(sqlite3_value_int64(value)) }
        var output: [UInt8] = []
        append(value, to: &output)
        return String(decoding: output, as: UTF8.self)
    }

    package static func text(of value: DatabaseValue) -> String {
        var output: [UInt8] = []
        switch value.storage {
        case .null: return "null"
        case .int64(let number): return String(number)
        case .double(let number): JSONText.append(number, to: &output)
        case .string(let text): Array(text.utf8).withUnsafeBufferPointer { JSONText.append(text: $0, to: &output) }
        case .blob(let data): Array(data).withUnsafeBufferPointer { JSONText.append(tag: "$blob", $0, to: &output) }
        }
        return String(decoding: output, as: UTF8.self)
    }

    /// Appends the canonical JSON of an SQL function's argument.
    static func append(_ value: OpaquePointer?, to output: inout [UInt8]) {
        switch sqlite3_value_type(value) {
        case SQLITE_INTEGER: output += String(sqlite3_value_int64(value)).utf8
        case SQLITE_FLOAT: JSONText.append(sqlite3_value_double(value), to: &output)
        case SQLITE_TEXT: JSONText.append(text: bytes(sqlite3_value_text(value), of: value), to: &output)
        case SQLITE_BLOB where sqlite3_value_bytes(value) > 0 || !planted(PlantedBug.takesEmptyForNull):
            JSONText.append(tag: "$blob", bytes(sqlite3_value_blob(value), of: value), to: &output)
        default: output += "null".utf8
        }
    }

    /// Returns the bytes of a text or blob argument; a zero-length value has no address.
    static func bytes(_ address: UnsafeRawPointer?, of value: OpaquePointer?) -> UnsafeBufferPointer<UInt8> {
        guard let address else { return UnsafeBufferPointer(start: nil, count: 0) }
        let count = Int(sqlite3_value_bytes(value))
        return UnsafeBufferPointer(start: address.assumingMemoryBound(to: UInt8.self), count: count)
    }
}

/// SQL that finds a table's row by a canonical key, with the table's own index.
package enum KeySQL {
    /// Returns the condition that a row has a canonical key, or unless `isExact` one that its columns call equal.
    package static func match(_ table: SyncedTable, key: String, alias: String = "", isExact: Bool = true) -> String {
        var conditions = table.key.indices.map {
            "\(alias)\(SQLText.name(table.key[$0])) = \(part(table, $0, of: key))"
        }
        if isExact, hasSpellings(table) { conditions.append("\(RowJSON.key(table, alias: alias)) = \(key)") }
        return conditions.joined(separator: " AND ")
    }

    /// Returns those of a table's canonical keys under which it has no row.
    package static func keysWithoutRow(_ keys: [String], in table: SyncedTable, _ db: Database) throws -> [String] {
        try String.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT listed.value
                    FROM json_each(?) AS listed
                    WHERE NOT EXISTS (
                        SELECT 1 FROM main.\(SQLText.name(table.name)) WHERE \(match(table, key: "listed.value")))
                    """), arguments: [JSONText.array(keys.map(JSONText.quote))])
    }

    /// Whether a key column may compare different values as equal, such as 9 and 9.0, or by its collation 'a' and 'A'.
    package static func hasSpellings(_ table: SyncedTable) -> Bool {
        switch table.keyKind {
        case .integer: false
        case .text: table.sql.uppercased().contains("COLLATE")
        case .general: true
        }
    }

    /// Returns the SQL of one key column's value from a canonical key.
    package static func part(_ table: SyncedTable, _ position: Int, of key: String) -> String {
        if table.keyKind == .integer { return "CAST(\(key) AS INTEGER)" }
        return table.key.count == 1 ? "tidemark_decode(\(key))" : "tidemark_decode(\(key) -> \(position))"
    }
}
