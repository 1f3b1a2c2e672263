package import GRDB
import GRDBSQLite
import TidemarkCore

/// The SQL functions that the engine adds to its own connections.
///
/// They convert rows to canonical JSON and back inside a statement, so that no rows pass through
/// Swift. Capture triggers do not use them, so that they work for any program.
///
/// | function | result |
/// | --- | --- |
/// | `tidemark_key(v, ...)` | the canonical JSON of a key: a value, or an array for a composite key |
/// | `tidemark_members(name, v, ...)` | `"name":json,...` of all pairs |
/// | `tidemark_object(members, ...)` | the non-empty members as one JSON object |
/// | `tidemark_decode(json)` | the SQLite value of a JSON value |
/// | `tidemark_canonical(json)` | a key's JSON, a value or an array of values, in canonical form |
///
/// ``Sums`` adds deltas.
package enum SQLFunctions {
    /// The prefix that distinguishes failures of ``TidemarkCore/Value`` from SQLite's own errors.
    static let invalidValueMark = "tidemark invalid value: "

    /// The reason why a statement could not decode a value, as words after a column's name; nil for another error.
    package static func invalidValueReason(of error: DatabaseError) -> String? {
        guard let message = error.message, message.hasPrefix(invalidValueMark) else { return nil }
        return String(message.dropFirst(invalidValueMark.count))
    }

    /// Adds the functions to a connection, once and while no statement runs.
    static func register(on db: Database) throws {
        try add("tidemark_key", to: db) { context, count, values in
            SQLFunctions.result(context, SQLFunctions.key(count, values))
        }
        try add("tidemark_members", to: db) { context, count, values in
            SQLFunctions.result(context, SQLFunctions.members(count, values))
        }
        try add("tidemark_object", to: db) { context, count, values in
            SQLFunctions.result(context, SQLFunctions.object(count, values))
        }
        try add("tidemark_decode", to: db) { context, _, values in SQLFunctions.decode(context, values) }
        try add("tidemark_canonical", to: db) { context, _, values in SQLFunctions.canonical(context, values) }
        try CutValues.register(on: db)
        try MatchPatterns.register(on: db)
        try Sums.register(on: db)
    }

    private typealias Values = UnsafeMutablePointer<OpaquePointer?>
    typealias Function = @convention(c) (OpaquePointer?, Int32, UnsafeMutablePointer<OpaquePointer?>?) -> Void

    /// Adds a function of `count` arguments or of any number, or an aggregate by its two functions.
    static func add(
        _ name: String, count: Int32 = -1, to db: Database, function: Function? = nil, step: Function? = nil,
        finish: (@convention(c) (OpaquePointer?) -> Void)? = nil
    ) throws {
        let flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY
        let code = sqlite3_create_function_v2(db.sqliteConnection, name, count, flags, nil, function, step, finish, nil)
        guard code == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: code)) }
    }

    private static func key(_ count: Int32, _ values: Values?) -> [UInt8] {
        var output: [UInt8] = []
        if count != 1 { output.append(UInt8(ascii: "[")) }
        for index in 0..<Int(count) {
            if index > 0 { output.append(UInt8(ascii: ",")) }
            CanonicalJSON.append(values?[index], to: &output)
        }
        if count != 1 { output.append(UInt8(ascii: "]")) }
        return output
    }

    private static func members(_ count: Int32, _ values: Values?) -> [UInt8] {
        var output: [UInt8] = []
        for index in stride(from: 0, to: Int(count) - 1, by: 2) {
            if index > 0 { output.append(UInt8(ascii: ",")) }
            CanonicalJSON.append(values?[index], to: &output)
            output.append(UInt8(ascii: ":"))
            CanonicalJSON.append(values?[index + 1], to: &output)
        }
        return output
    }

    private static func object(_ count: Int32, _ values: Values?) -> [UInt8] {
        var output: [UInt8] = [UInt8(ascii: "{")]
        for index in 0..<Int(count) {
            let part = CanonicalJSON.bytes(sqlite3_value_text(values?[index]), of: values?[index])
            guard !part.isEmpty else { continue }
            // This avoids a copy when the array grows.
            if output.count == 1 { output.reserveCapacity(part.count + 16) }
            if output.count > 1 { output.append(UInt8(ascii: ",")) }
            output += part
        }
        output.append(UInt8(ascii: "}"))
        return output
    }

    private static func decode(_ context: OpaquePointer?, _ values: Values?) {
        guard let pointer = sqlite3_value_text(values?[0]) else { return sqlite3_result_null(context) }
        do throws(InvalidValue) {
            switch try Value(json: CanonicalJSON.bytes(pointer, of: values?[0])) {
            case .null: sqlite3_result_null(context)
            case .integer(let value): sqlite3_result_int64(context, value)
            case .real(let value): sqlite3_result_double(context, value)
            case .text(let text): result(context, Array(text.utf8))
            case .rawText(let bytes): result(context, bytes)
            case .blob(let bytes):
                bytes.withUnsafeBytes {
                    if $0.isEmpty {
                        sqlite3_result_zeroblob(context, 0)
                    } else {
                        sqlite3_result_blob(context, $0.baseAddress, Int32($0.count), transient)
                    }
                }
            }
        } catch { sqlite3_result_error(context, invalidValueMark + error.reason, -1) }
    }

    private static func canonical(_ context: OpaquePointer?, _ values: Values?) {
        guard let pointer = sqlite3_value_text(values?[0]) else { return sqlite3_result_null(context) }
        do throws(InvalidValue) {
            result(context, try canonicalKey(json: CanonicalJSON.bytes(pointer, of: values?[0])))
        } catch {
            sqlite3_result_error(context, invalidValueMark + error.reason, -1)
        }
    }

    static func result(_ context: OpaquePointer?, _ bytes: [UInt8]) {
        bytes.withUnsafeBytes {
            let start = $0.bindMemory(to: CChar.self).baseAddress
            sqlite3_result_text(context, start, Int32($0.count), transient)
            if start == nil { sqlite3_result_text(context, "", 0, transient) }
        }
    }

    /// SQLITE_TRANSIENT: SQLite copies the bytes before the call returns.
    private static let transient = unsafeBitCast(-1, to: sqlite3_destructor_type.self)
}
