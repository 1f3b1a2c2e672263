import GRDB
import GRDBSQLite

/// All rows of a file, read by plain `SELECT`, in one canonical form: what an observer sees who
/// knows nothing of the engine.
struct FileImage: Hashable {
    /// For each table of ``ZoneSchema`` its rows in key order, as bytes.
    private(set) var tables: [[UInt8]] = []

    /// Reads the rows.
    init(_ db: Database) throws {
        for table in ZoneSchema.tables {
            let order = table.key.map { table.columns[$0] }.joined(separator: ", ")
            let statement = try db.cachedStatement(
                sql:
                    "SELECT \(table.columns.joined(separator: ", ")) FROM main.\(table.name) ORDER BY \(order)"
            )
            tables.append(try Self.read(statement.sqliteStatement, table.columns.count, in: db))
        }
    }

    /// The rows of a table, each as its values in canonical JSON.
    func rows(_ index: Int) -> [[String]] {
        var (rows, at) = ([[String]](), 0)
        let (bytes, columns) = (tables[index], ZoneSchema.tables[index].columns)
        while at < bytes.count { rows.append(columns.map { _ in Self.value(bytes, &at) }) }
        return rows
    }

    /// All rows as readable lines.
    var lines: [String] {
        ZoneSchema.tables.enumerated().flatMap { index, table in
            rows(index).map { row in
                "\(table.name) "
                    + zip(table.columns, row).map { "\($0)=\($1)" }.joined(separator: " ")
            }
        }
    }

    // MARK: Bytes

    private static func read(
        _ statement: OpaquePointer,
        _ columns: Int,
        in db: Database
    ) throws -> [UInt8] {
        sqlite3_reset(statement)
        defer { sqlite3_reset(statement) }
        var bytes: [UInt8] = []
        while true {
            switch sqlite3_step(statement) {
            case SQLITE_ROW:
                for column in 0..<Int32(columns) { append(statement, column, to: &bytes) }
            case SQLITE_DONE: return bytes
            case let code:
                throw DatabaseError(
                    resultCode: ResultCode(rawValue: code),
                    message: String(cString: sqlite3_errmsg(db.sqliteConnection))
                )
            }
        }
    }

    private static func append(
        _ statement: OpaquePointer,
        _ column: Int32,
        to bytes: inout [UInt8]
    ) {
        let type = sqlite3_column_type(statement, column)
        bytes.append(UInt8(type))
        switch type {
        case SQLITE_INTEGER:
            append(UInt64(bitPattern: sqlite3_column_int64(statement, column)), to: &bytes)
        case SQLITE_FLOAT:
            append(sqlite3_column_double(statement, column).bitPattern, to: &bytes)
        case SQLITE_TEXT, SQLITE_BLOB:
            let start = sqlite3_column_blob(statement, column)
            let count = Int(sqlite3_column_bytes(statement, column))
            append(UInt64(count), to: &bytes)
            if let start { bytes += UnsafeRawBufferPointer(start: start, count: count) }
        default: break
        }
    }

    private static func append(_ number: UInt64, to bytes: inout [UInt8]) {
        for shift in stride(from: UInt64(0), to: 64, by: 8) {
            bytes.append(UInt8(truncatingIfNeeded: number >> shift))
        }
    }

    // MARK: Values

    /// The value that begins at `at`, as canonical JSON.
    private static func value(_ bytes: [UInt8], _ at: inout Int) -> String {
        let type = Int32(bytes[at])
        at += 1
        guard type != SQLITE_NULL else { return "null" }
        let number = (0..<8).reduce(UInt64(0)) { $0 | UInt64(bytes[at + $1]) << UInt64($1 * 8) }
        at += 8
        switch type {
        case SQLITE_INTEGER: return String(Int64(bitPattern: number))
        case SQLITE_FLOAT: return "\(Double(bitPattern: number))"
        default:
            let content = bytes[at..<at + Int(number)]
            at += Int(number)
            return type == SQLITE_TEXT ? ValueJSON.text(content) : ValueJSON.blob(content)
        }
    }
}
