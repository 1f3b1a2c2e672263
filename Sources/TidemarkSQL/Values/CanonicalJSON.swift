import Foundation
package import GRDB
import GRDBSQLite
import TidemarkCore

/// The canonical JSON form of SQLite values: equal texts mean equal types and values.
///
/// | value | JSON |
/// | --- | --- |
/// | NULL | `null` |
/// | INTEGER | digits: `42` |
/// | REAL | the shortest digits that round-trip, always with `.` or `e`: `42.0` |
/// | infinite REAL | `{"$real":"Infinity"}` or `{"$real":"-Infinity"}` |
/// | TEXT | a string; only `"`, `\` and control characters are escaped |
/// | TEXT with NUL or invalid UTF-8 | `{"$text":"<base64 of its bytes>"}` |
/// | BLOB | `{"$blob":"<base64>"}` |
///
/// SQLite's own `json_quote` is not exact: it rejects blobs, cuts text at NUL, and prints some doubles
/// that do not round-trip (1,282 of 199,901 random doubles with SQLite 3.40.1 and `%!.17g`).
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

    /// Returns the canonical JSON of a value.
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

    /// Whether two arguments have the same canonical JSON.
    static func isSame(_ left: OpaquePointer?, _ right: OpaquePointer?) -> Bool {
        let type = sqlite3_value_type(left)
        guard type == sqlite3_value_type(right) else { return false }
        switch type {
        case SQLITE_INTEGER: return sqlite3_value_int64(left) == sqlite3_value_int64(right)
        case SQLITE_FLOAT: return sqlite3_value_double(left).bitPattern == sqlite3_value_double(right).bitPattern
        case SQLITE_TEXT:
            return isEqual(bytes(sqlite3_value_text(left), of: left), bytes(sqlite3_value_text(right), of: right))
        case SQLITE_BLOB:
            return isEqual(bytes(sqlite3_value_blob(left), of: left), bytes(sqlite3_value_blob(right), of: right))
        default: return true
        }
    }

    private static func isEqual(_ left: UnsafeBufferPointer<UInt8>, _ right: UnsafeBufferPointer<UInt8>) -> Bool {
        guard left.count == right.count else { return false }
        guard let first = left.baseAddress, let second = right.baseAddress else { return true }
        return memcmp(first, second, left.count) == 0
    }
}
