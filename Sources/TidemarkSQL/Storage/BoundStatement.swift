package import GRDB
import GRDBSQLite
package import TidemarkCore

/// A cached statement to which values are bound without copies in between.
///
/// GRDB's arguments are an array of `DatabaseValue`, which is as expensive as the insertion of a short row.
package struct BoundStatement {
    private let db: Database
    private let statement: OpaquePointer
    private let sql: String

    /// Compiles a statement, or finds it in the connection's cache.
    ///
    /// - Throws: `DatabaseError`.
    package init(_ sql: String, in db: Database) throws {
        self.db = db
        self.sql = sql
        statement = try db.cachedStatement(sql: sql).sqliteStatement
        // GRDB leaves a statement as it is after its last step, and SQLite then refuses values.
        sqlite3_reset(statement)
    }

    /// Runs the statement once with the values that `bind` binds; the others are NULL.
    ///
    /// - Throws: `DatabaseError`, or the error of `bind`.
    package func run(_ bind: (Self) throws -> Void) throws { try run(bind) { _ in } }

    /// Runs the statement once, and passes it on at each row.
    ///
    /// - Throws: `DatabaseError`, or the error of `bind` or `row`.
    package func run(_ bind: (Self) throws -> Void, row: (OpaquePointer) throws -> Void) throws {
        defer {
            sqlite3_reset(statement)
            sqlite3_clear_bindings(statement)
        }
        try bind(self)
        while true {
            let code = sqlite3_step(statement)
            if code == SQLITE_ROW {
                try row(statement)
                continue
            }
            if code == SQLITE_DONE { return }
            throw DatabaseError(
                resultCode: ResultCode(rawValue: sqlite3_extended_errcode(db.sqliteConnection)),
                message: String(cString: sqlite3_errmsg(db.sqliteConnection)),
                sql: sql
            )
        }
    }

    /// Binds a value.
    package func bind(_ value: Value, at index: Int32) {
        switch value {
        case .null: break
        case .integer(let value): bind(value, at: index)
        case .real(let value): bind(value, at: index)
        case .text(let text): bind(text, at: index)
        case .rawText(let bytes): bind(bytes, at: index)
        case .blob(let bytes): bind(blob: bytes, at: index)
        }
    }

    /// Binds a number.
    package func bind(_ value: Int, at index: Int32) { sqlite3_bind_int64(statement, index, Int64(value)) }

    /// Binds a value; nil is NULL.
    package func bind(_ value: Int64?, at index: Int32) {
        if let value { sqlite3_bind_int64(statement, index, value) }
    }

    /// Binds a value; nil is NULL.
    package func bind(_ value: Double?, at index: Int32) {
        if let value { sqlite3_bind_double(statement, index, value) }
    }

    /// Binds a value; nil is NULL.
    package func bind(_ text: String?, at index: Int32) {
        guard var text else { return }
        text.withUTF8 { bind(text: $0, at: index, Self.transient) }
    }

    /// Binds a value; nil is NULL.
    package func bind(_ text: [UInt8]?, at index: Int32) {
        text?.withUnsafeBufferPointer { bind(text: $0, at: index, Self.transient) }
    }

    /// Binds the value of a cell; the reader's text has to stay until the statement has run.
    ///
    /// - Throws: ``TidemarkCore/InvalidValue``.
    package func bind(_ cell: Cell, of reader: JSONReader, at index: Int32) throws(InvalidValue) {
        if cell.kind == .text {
            // SQLite copies the text into the row while the statement runs.
            return bind(text: UnsafeBufferPointer(rebasing: reader.bytes[cell.range]), at: index, nil)
        }
        bind(try reader.value(of: cell), at: index)
    }

    private func bind(blob: [UInt8], at index: Int32) {
        guard !blob.isEmpty else { return _ = sqlite3_bind_zeroblob(statement, index, 0) }
        blob.withUnsafeBytes {
            _ = sqlite3_bind_blob64(statement, index, $0.baseAddress, UInt64($0.count), Self.transient)
        }
    }

    private func bind(text: UnsafeBufferPointer<UInt8>, at index: Int32, _ lifetime: sqlite3_destructor_type?) {
        guard let start = text.baseAddress, !text.isEmpty else {
            sqlite3_bind_text(statement, index, "", 0, Self.transient)
            return
        }
        start.withMemoryRebound(to: CChar.self, capacity: text.count) {
            _ = sqlite3_bind_text(statement, index, $0, Int32(text.count), lifetime)
        }
    }

    /// SQLITE_TRANSIENT: SQLite copies the bytes before the call returns.
    private static let transient = unsafeBitCast(-1, to: sqlite3_destructor_type.self)
}
