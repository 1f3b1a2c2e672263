import GRDB
import GRDBSQLite

/// The result of a query as bytes, equal exactly when every value is: type, length and content.
enum RowBytes {
    /// A value of a row.
    struct Value {
        fileprivate let type: Int32
        /// The content of text or a blob, eight bytes of a number.
        let bytes: [UInt8]

        /// Whether it is NULL.
        var isNull: Bool { type == SQLITE_NULL }

        /// Text unchanged, a number in digits, nothing for NULL.
        var text: String {
            switch type {
            case SQLITE_NULL: ""
            case SQLITE_INTEGER: String(Int64(bitPattern: number))
            case SQLITE_FLOAT: "\(Double(bitPattern: number))"
            default: String(decoding: bytes, as: UTF8.self)
            }
        }

        /// The value as `Docs/PROTOCOL.md` writes it.
        var json: String {
            switch type {
            case SQLITE_NULL: "null"
            case SQLITE_TEXT: ValueJSON.text(bytes)
            case SQLITE_BLOB: ValueJSON.blob(bytes)
            default: text
            }
        }

        private var number: UInt64 { RowBytes.number(bytes, at: 0) }
    }

    /// Runs a query.
    static func read(_ sql: String, columns: Int, in db: Database) throws -> [UInt8] {
        let statement = try db.cachedStatement(sql: sql).sqliteStatement
        sqlite3_reset(statement)
        defer { sqlite3_reset(statement) }
        var bytes: [UInt8] = []
        while true {
            switch sqlite3_step(statement) {
            case SQLITE_ROW: for column in 0..<Int32(columns) { append(statement, column, to: &bytes) }
            case SQLITE_DONE: return bytes
            case let code:
                throw DatabaseError(
                    resultCode: ResultCode(rawValue: code),
                    message: String(cString: sqlite3_errmsg(db.sqliteConnection)))
            }
        }
    }

    /// The rows in the bytes.
    static func rows(_ bytes: [UInt8], columns: Int) -> [[Value]] {
        var rows = [[Value]]()
        var at = 0
        while at < bytes.count { rows.append((0..<columns).map { _ in value(bytes, &at) }) }
        return rows
    }

    /// The rows, each with the same bytes appended.
    static func append(_ more: [UInt8], to bytes: [UInt8], columns: Int) -> [UInt8] {
        guard !more.isEmpty else { return bytes }
        var longer = [UInt8]()
        var start = 0
        var at = 0
        while at < bytes.count {
            for _ in 0..<columns { _ = value(bytes, &at) }
            longer += bytes[start..<at] + more
            start = at
        }
        return longer
    }

    /// The bytes of a default in a schema: a number, NULL, or text of plain letters.
    static func encode(json: String) -> [UInt8] {
        var bytes: [UInt8] = []
        if let number = Int64(json) {
            bytes.append(UInt8(SQLITE_INTEGER))
            append(UInt64(bitPattern: number), to: &bytes)
        } else if let number = Double(json) {
            bytes.append(UInt8(SQLITE_FLOAT))
            append(number.bitPattern, to: &bytes)
        } else if json == "null" {
            bytes.append(UInt8(SQLITE_NULL))
        } else {
            let text = json.utf8.dropFirst().dropLast()
            bytes.append(UInt8(SQLITE_TEXT))
            append(UInt64(text.count), to: &bytes)
            bytes += text
        }
        return bytes
    }

    // MARK: Bytes

    private static func append(_ statement: OpaquePointer, _ column: Int32, to bytes: inout [UInt8]) {
        let type = sqlite3_column_type(statement, column)
        bytes.append(UInt8(type))
        switch type {
        case SQLITE_INTEGER: append(UInt64(bitPattern: sqlite3_column_int64(statement, column)), to: &bytes)
        case SQLITE_FLOAT: append(sqlite3_column_double(statement, column).bitPattern, to: &bytes)
        case SQLITE_TEXT, SQLITE_BLOB:
            let start = sqlite3_column_blob(statement, column)
            let count = Int(sqlite3_column_bytes(statement, column))
            append(UInt64(count), to: &bytes)
            if let start { bytes += UnsafeRawBufferPointer(start: start, count: count) }
        default: break
        }
    }

    private static func append(_ number: UInt64, to bytes: inout [UInt8]) {
        withUnsafeBytes(of: number.littleEndian) { bytes += $0 }
    }

    private static func value(_ bytes: [UInt8], _ at: inout Int) -> Value {
        let type = Int32(bytes[at])
        at += 1
        switch type {
        case SQLITE_NULL: return Value(type: type, bytes: [])
        case SQLITE_INTEGER, SQLITE_FLOAT:
            at += 8
            return Value(type: type, bytes: Array(bytes[at - 8..<at]))
        default:
            let count = Int(number(bytes, at: at))
            at += 8 + count
            return Value(type: type, bytes: Array(bytes[at - count..<at]))
        }
    }

    private static func number(_ bytes: [UInt8], at: Int) -> UInt64 {
        (0..<8).reduce(UInt64(0)) { $0 | UInt64(bytes[at + $1]) << UInt64($1 * 8) }
    }
}
