package import GRDB
import GRDBSQLite
package import TidemarkCore
package import TidemarkEngine
import TidemarkSQL

/// A zone's file at one revision, for clients without rows.
package struct FileReader: ZoneReader, FileBooks {
    package let access: ZoneAccess
    package let books: BookState
    private let zone: FileRows

    package var db: Database { zone.db }

    /// Wraps a connection in a read transaction, with the engine's functions; `hash` is the schema's.
    package init(_ db: Database, schema: SyncSchema, hash: String, for access: ZoneAccess) throws {
        self.access = access
        zone = FileRows(db, schema: schema)
        let head = try FileConnection(db).head(schema: hash, layout: schema.fingerprintLayout)
        guard let head else { throw ZoneTransaction.notAZone }
        books = BookState(head, ways: ZoneWays(ofFile: schema))
    }

    package func tableRows(_ question: TableQuestion) throws -> TableAnswer { try zone.answer(question) }

    package func count(_ table: SyncedTable, where filter: RowFilter?, max: Int, estimates: Bool) throws
        -> RowEstimate
    {
        let counted = try zone.count(table, where: filter, max: max)
        guard estimates, counted > max else { return .about(counted) }
        return try zone.estimate(table, above: max)
    }
}

/// The rows of a zone's file, by tables and columns.
package struct FileRows {
    let db: Database
    let schema: SyncSchema

    init(_ db: Database, schema: SyncSchema) {
        self.db = db
        self.schema = schema
    }

    func answer(_ question: TableQuestion) throws -> TableAnswer {
        switch question {
        case .page(let query): TableAnswer(try rows(query))
        case .sums(let query): TableAnswer(try fingerprints(query))
        }
    }

    private func rows(_ query: RowQuery) throws -> RowPage {
        var collected = CollectRows(query)
        let sql = RowSQL(query, in: FileDialect(table: query.table))
        for statement in try sql.statements(limit: query.limit + 1) {
            guard try take(statement, query, into: &collected) else { break }
        }
        return collected.page
    }

    private func take(_ statement: RowSQL<FileDialect>.Statement, _ query: RowQuery, into collected: inout CollectRows)
        throws -> Bool
    {
        try bounded(query) {
            let prepared =
                try query.isCommon
                ? db.cachedStatement(sql: statement.sql) : db.makeStatement(sql: statement.sql)
            var arguments = StatementArguments(statement.arguments)
            if query.keys == nil { arguments += [query.limit + 1] }
            let rows = try Row.fetchCursor(prepared, arguments: arguments)
            let cutCount = query.charactersMax == nil ? 0 : query.columns.count
            while let row = try rows.next() {
                let cells = try (2..<row.count).map { index in
                    try index - 2 < cutCount ? row.value(index) : CanonicalJSON.text(of: index, in: prepared)
                }
                guard try collected.take(key: row.value(0), revision: row.value(1), cells: cells) else { return false }
            }
            return true
        }
    }

    func count(_ table: SyncedTable, where filter: RowFilter?, max: Int) throws -> Int {
        let query = RowQuery(table, where: filter, limit: max)
        let statement = try RowSQL.count(table, where: filter, max: max, in: FileDialect(table: table))
        return try bounded(query) {
            try Int.fetchOne(db, sql: statement.sql, arguments: StatementArguments(statement.arguments)) ?? 0
        }
    }

    /// The number of a table's rows by the density of ids, if it has more than `max`.
    func estimate(_ table: SyncedTable, above max: Int) throws -> RowEstimate {
        guard table.keyKind == .integer else { return .atLeast(max) }
        return .about(Swift.max(max + 1, try IDDensity(db, table: table).rows()))
    }

    /// Translates the errors that a question can cause.
    func bounded<Result>(_ query: RowQuery, _ body: () throws -> Result) throws -> Result {
        do { return try body() } catch let error as DatabaseError where error.resultCode == .SQLITE_INTERRUPT {
            throw TidemarkError.queryTooCostly(query.table, index: FileDialect(table: query.table).index(for: query))
        } catch let error as DatabaseError {
            guard let reason = SQLFunctions.invalidValueReason(of: error) else { throw error }
            throw TidemarkError(
                .invalidValue, "A value in the query is not valid: it \(reason).",
                fix: #"Write numbers and texts as they are, and blobs as {"$blob":"<base64>"}."#,
                place: .init(table: query.table.name))
        }
    }
}

/// Ends statements of a connection that run too long.
///
/// SQLite calls the handler every some thousand steps of its machine, and stops the statement when it returns true.
/// A function that reads long values is one step, and asks ``TidemarkSQL/StatementTime``.
final class ReadingDeadline {
    private static let steps: Int32 = 4_000
    private let end: ContinuousClock.Instant

    /// Runs `body`, whose statements end with `queryTooCostly` after the limit of time.
    static func run<Result>(_ db: Database, _ body: () throws -> Result) throws -> Result {
        let deadline = ReadingDeadline()
        let context = Unmanaged.passUnretained(deadline).toOpaque()
        sqlite3_progress_handler(
            db.sqliteConnection,
            steps,
            { context in
                guard let context else { return 0 }
                let deadline = Unmanaged<ReadingDeadline>.fromOpaque(context).takeUnretainedValue()
                return ContinuousClock.now >= deadline.end ? 1 : 0
            },
            context)
        defer {
            sqlite3_progress_handler(db.sqliteConnection, 0, nil, nil)
            withExtendedLifetime(deadline) {}
        }
        let end = deadline.end
        do { return try StatementTime.$isOver.withValue({ ContinuousClock.now >= end }) { try body() } } catch let error
            as DatabaseError where error.resultCode == .SQLITE_INTERRUPT
        {
            throw TidemarkError.queryTooCostly()
        }
    }

    private init() { end = .now + .milliseconds(ZoneReaderLimits.millisecondsMax) }
}

/// The SQL of SQLite for questions about rows of one table.
struct FileDialect: RowDialect {
    /// The listed table's alias, as it stands before a column.
    static let alias = "app_row."

    let table: SyncedTable

    func value(_ json: String, of column: SyncedTable.Column, at index: Int) -> BoundSQL {
        BoundSQL("tidemark_decode(?\(index + 1))", json)
    }

    func operand(_ column: SyncedTable.Column) -> String {
        let name = Self.alias + SQLText.name(column.name)
        return column.affinity == "TEXT" || column.affinity == "BLOB" ? "\(name) COLLATE BINARY" : name
    }

    func isOneOf(_ column: SyncedTable.Column, _ values: [String]) -> String {
        "\(operand(column)) IN (\(values.joined(separator: ", ")))"
    }

    /// SQLite's `GLOB` would take a step for each byte of the value and of the pattern, and could not be stopped.
    func like(_ column: SyncedTable.Column, _ pattern: String, at index: Int) -> BoundSQL {
        BoundSQL("tidemark_like(\(operand(column)), ?\(index + 1))", pattern)
    }

    func mayBeNull(_ column: SyncedTable.Column) -> Bool { !column.isNotNull && !table.key.contains(column.name) }

    var readsNullApart: Bool { false }

    func direction(of column: SyncedTable.Column, isDescending: Bool, isUniform: Bool) -> String {
        isDescending ? " DESC" : ""
    }

    func json(_ column: SyncedTable.Column, charactersMax: Int?) -> String {
        // ``FileReader`` renders a whole value, without a function's call for each.
        let name = Self.alias + SQLText.name(column.name)
        return charactersMax.map { "tidemark_cut(\(name), \($0))" } ?? name
    }

    var keyJSON: String { RowJSON.key(table, alias: Self.alias) }

    var revision: String {
        """
        coalesce(
            (SELECT max(log_entry.revision) FROM main.tidemark_log AS log_entry
                WHERE log_entry.tbl = \(SQLText.literal(table.name)) AND log_entry.key = \(keyJSON)),
            (SELECT adopted FROM main.tidemark_zone))
        """
    }

    var from: String { "main.\(SQLText.name(table.name)) AS app_row" }
    var scope: String? { nil }

    func from(keys: [String], at index: Int) -> BoundSQL {
        let match = KeySQL.match(table, key: "wanted.value", alias: Self.alias, isExact: false)
        return BoundSQL(
            "json_each(?\(index + 1)) AS wanted CROSS JOIN \(from) ON \(match)",
            JSONText.array(keys.map { JSONText.quote($0) }))
    }

    func statement(_ selection: RowSelection) -> String {
        let order = selection.order.isEmpty ? "" : "\nORDER BY \(selection.order.joined(separator: ", "))"
        // The last parameter, so that pages of any size have the same statement.
        let limit = selection.limit == nil ? "" : "\nLIMIT ?"
        return "SELECT \(selection.cells.joined(separator: ", "))\nFROM \(selection.source)\(order)\(limit)"
    }

    /// The statement that makes the index with which a question is cheap.
    func index(for query: RowQuery) -> String {
        let columns = query.indexColumns.map(\.name)
        let name = SQLText.name("\(table.name)_\(columns[0])")
        return "CREATE INDEX \(name) ON \(SQLText.name(table.name)) (\(SQLText.names(columns)));"
    }
}
