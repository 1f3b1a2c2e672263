import CLibPQ
import Foundation

/// One connection to PostgreSQL, through libpq: synchronous, for one thread at a time.
///
/// Addresses, passwords and TLS follow libpq's own rules (`postgres://` or `key=value`,
/// `PGPASSWORD`, `~/.pgpass`, `sslmode`). Values travel as text. The connection prepares a statement
/// when it first runs, and PostgreSQL plans it once.
///
/// A request names few records of a large table, but the planner does not know how many a parameter
/// holds. The session therefore prefers index scans. Full table scans run within ``scanning(_:)``.
package final class PostgresConnection {
    let handle: OpaquePointer
    /// The names of the prepared statements, by their SQL.
    var statementNames: [String: String] = [:]
    /// The statements that wait for the next round trip.
    var queued: [PostgresStatement] = []
    /// The number of statements that were ever queued.
    var queuedCount = 0
    private var position: CataloguePosition?

    /// Connects, and returns when the session is ready; throws ``PostgresFailure``.
    package init(_ address: String) throws {
        try PostgresAddress.check(address)
        let keywords = ["dbname", "client_encoding", "application_name", "connect_timeout"]
        let values = [address, "UTF8", "tidemark", "10"]
        let connection = Self.withCStrings(keywords.map(Optional.some) + [nil]) { keywords in
            Self.withCStrings(values.map(Optional.some) + [nil]) { values in PQconnectdbParams(keywords, values, 1) }
        }
        guard let connection else { throw PostgresFailure(state: "", message: "no memory") }
        handle = connection
        guard PQstatus(handle) == CONNECTION_OK else { throw connectionLoss() }
        PQsetNoticeProcessor(handle, { _, _ in }, nil)
        try execute(
            """
            SET statement_timeout = '60 s'; -- a runaway statement frees its worker
            SET lock_timeout = '10 s'; -- a long lock fails the request, and does not block the node
            SET idle_in_transaction_session_timeout = '30 s'; -- a stopped node loses its locks
            SET default_transaction_isolation = 'read committed'; -- statements under the lock see new commits
            SET standard_conforming_strings = on; -- a backslash in a literal of SQLText is an ordinary character
            SET bytea_output = 'hex'; -- blobs arrive in one known encoding
            SET extra_float_digits = 1; -- floats print the shortest digits that read back exactly
            SET datestyle = 'ISO, YMD'; -- dates have one text, which devices store and hash
            SET intervalstyle = 'postgres'; -- intervals have one text, for the same reason
            SET timezone = 'UTC'; -- timestamps have one text, for the same reason
            SET tidemark.engine = 'on'; -- capture triggers recognize writes of a node
            SET jit = off; -- compiling costs more than these short statements
            SET plan_cache_mode = force_generic_plan; -- each prepared statement is planned once
            SET enable_hashjoin = off; -- a hash join would read a whole table for a few records
            SET enable_mergejoin = off; -- so would a merge join
            SET enable_material = off; -- so would a copy of a table that was small when the statement was planned
            SET enable_seqscan = off; -- small tables use their index too, because the plan outlives their growth
            """)
        // An acknowledged commit must be on disk, even if the database's default is asynchronous.
        if try ["off", "local"].contains(text("SHOW synchronous_commit") ?? "") {
            try execute("SET synchronous_commit = on")
        }
    }

    deinit { PQfinish(handle) }

    package var isUsable: Bool { PQstatus(handle) == CONNECTION_OK }
    package var isInTransaction: Bool { PQtransactionStatus(handle) != PQTRANS_IDLE }

    // MARK: Notifications

    /// Waits for notifications, a readable `descriptor` or the time; returns payloads, and throws ``PostgresFailure``.
    package func notifications(or descriptor: Int32, milliseconds: Int32) throws -> [String] {
        var files = [
            pollfd(fd: PQsocket(handle), events: Int16(POLLIN), revents: 0),
            pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0),
        ]
        poll(&files, nfds_t(files.count), milliseconds)
        guard PQconsumeInput(handle) == 1, PQstatus(handle) == CONNECTION_OK else { throw connectionLoss() }
        var payloads: [String] = []
        while let notification = PQnotifies(handle) {
            payloads.append(String(cString: notification.pointee.extra))
            PQfreemem(notification)
        }
        return payloads
    }

    // MARK: Statements

    /// Runs statements without parameters and without a result.
    package func execute(_ sql: String) throws {
        try flush()
        PQclear(try checked(PQexec(handle, sql), sql))
    }

    /// Runs `body` in a transaction, and rolls it back when `body` throws.
    package func transaction<Success>(_ begin: String = "BEGIN", _ body: () throws -> Success) throws -> Success {
        try PostgresFailure.beforeBegin { try execute(begin) }
        return try endingTransaction {
            let result = try body()
            try commit()
            return result
        }
    }

    /// Runs `body`, and rolls back the transaction that it leaves.
    func endingTransaction<Success>(_ body: () throws -> Success) throws -> Success {
        let result = Result { try body() }
        if isUsable, isInTransaction { try rollback() }
        return try result.get()
    }

    /// Commits in one round trip; throws where PostgreSQL answers `ROLLBACK` because the transaction has failed.
    package func commit() throws {
        guard try run([PostgresStatement("COMMIT")])[0].command == "COMMIT" else {
            throw PostgresFailure(state: "40000", message: "the transaction was rolled back")
        }
    }

    /// Rolls back, and forgets the statements that wait.
    private func rollback() throws {
        queued = []
        try execute("ROLLBACK")
    }

    /// Runs one statement once, without preparing it; `$1`, `$2` and so on are the parameters, as text.
    package func rows(_ sql: String, _ parameters: [String?] = []) throws -> PostgresRows {
        try Self.refuseNUL(parameters, sql)
        try flush()
        let result = Self.withCStrings(parameters) {
            PQexecParams(handle, sql, Int32(parameters.count), nil, $0, nil, nil, 0)
        }
        return PostgresRows(try checked(result, sql))
    }

    /// Prepares and runs a statement with text parameters `$1`, `$2`…; refuses NUL in one, where libpq would cut it.
    @discardableResult package func query(_ sql: String, _ parameters: [String?] = []) throws -> PostgresRows {
        guard queued.isEmpty else { return try run([PostgresStatement(sql, parameters)])[0] }
        try Self.refuseNUL(parameters, sql)
        let name = try prepare(sql)
        let result = Self.withCStrings(parameters) {
            PQexecPrepared(handle, name, Int32(parameters.count), $0, nil, nil, 0)
        }
        return PostgresRows(try checked(result, sql))
    }

    /// Runs a statement, and passes its rows to `body`, which must not use the connection, one by one, to bound memory.
    package func each(_ sql: String, parameters: [String?] = [], body: (PostgresRows.Row) throws -> Void) throws {
        try Self.refuseNUL(parameters, sql)
        try flush()
        let name = try prepare(sql)
        let isSent = Self.withCStrings(parameters) {
            PQsendQueryPrepared(handle, name, Int32(parameters.count), $0, nil, nil, 0)
        }
        guard isSent == 1, PQsetSingleRowMode(handle) == 1 else { throw connectionLoss() }
        // libpq accepts the next statement only after all results are read, even on failure.
        var failure: (any Error)?
        while let result = PQgetResult(handle) {
            do {
                let rows = PostgresRows(try checked(result, sql))
                guard failure == nil else { continue }
                for index in 0..<rows.count { try body(rows[index]) }
            } catch { failure = failure ?? error }
        }
        if let failure { throw failure }
    }

    /// Returns the first column of the first row; nil without a row, or for NULL.
    package func text(_ sql: String, _ parameters: [String?] = []) throws -> String? {
        let rows = try query(sql, parameters)
        return rows.isEmpty ? nil : rows[0][0]
    }

    package func integer(_ sql: String, _ parameters: [String?] = []) throws -> Int64? {
        try text(sql, parameters).flatMap { Int64($0) }
    }

    static func refuseNUL(_ parameters: [String?], _ sql: String) throws {
        guard !parameters.contains(where: { $0?.utf8.contains(0) == true }) else {
            throw PostgresFailure(state: "22021", message: "a parameter has NUL", sql: sql)
        }
    }

    /// Runs `body` with full table scans and all join methods allowed.
    func scanning<Result>(_ body: () throws -> Result) throws -> Result {
        try execute("SET enable_hashjoin = on; SET enable_mergejoin = on; SET enable_seqscan = on")
        let result = Swift.Result { try body() }
        // A failed transaction accepts no SET; its rollback restores the settings.
        if isUsable, PQtransactionStatus(handle) != PQTRANS_INERROR {
            try execute("SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_seqscan = off")
        }
        return try result.get()
    }

    func deallocateStatements() throws {
        statementNames.removeAll()
        try execute("DEALLOCATE ALL")
    }

    /// Deallocates the prepared statements if the tables were altered since the last call.
    func deallocateStatements(ifAlteredAt position: CataloguePosition) throws {
        if self.position != nil, self.position != position { try deallocateStatements() }
        self.position = position
    }

    /// The maximum number of prepared statements; their texts depend on the columns that requests set.
    static let statementsMax = 1_000

    private func prepare(_ sql: String) throws -> String {
        if let name = statementNames[sql] { return name }
        if statementNames.count >= Self.statementsMax { try deallocateStatements() }
        let name = "t\(statementNames.count + 1)"
        PQclear(try checked(PQprepare(handle, name, sql, 0, nil), sql))
        statementNames[sql] = name
        return name
    }

    /// Returns `result`, or throws the error that it carries.
    func checked(_ result: OpaquePointer?, _ sql: String) throws -> OpaquePointer {
        let status = PQresultStatus(result)
        if let result, [PGRES_TUPLES_OK, PGRES_SINGLE_TUPLE, PGRES_COMMAND_OK, PGRES_EMPTY_QUERY].contains(status) {
            return result
        }
        defer { PQclear(result) }
        func field(_ code: UnicodeScalar) -> String? {
            PQresultErrorField(result, Int32(code.value)).map { String(cString: $0) }
        }
        let isLost = PQstatus(handle) != CONNECTION_OK
        throw PostgresFailure(
            state: isLost ? "" : field("C") ?? "", message: field("M") ?? String(cString: PQerrorMessage(handle)),
            table: field("t"), column: field("c"), constraint: field("n"), source: field("R"), sql: sql)
    }

    static func withCStrings<Result>(_ texts: [String?], _ body: (UnsafePointer<UnsafePointer<CChar>?>?) -> Result)
        -> Result
    {
        let copies = texts.map { $0.map { strdup($0) } }
        defer { for case let copy?? in copies { free(copy) } }
        return copies.map { $0.flatMap { UnsafePointer($0) } }.withUnsafeBufferPointer { body($0.baseAddress) }
    }
}

/// The rows of a result, as text.
package final class PostgresRows {
    private let result: OpaquePointer

    init(_ result: OpaquePointer) { self.result = result }

    deinit { PQclear(result) }

    package var count: Int { Int(PQntuples(result)) }
    package var columnCount: Int { Int(PQnfields(result)) }
    package var isEmpty: Bool { count == 0 }
    /// The command tag, such as `COMMIT`.
    package var command: String { String(cString: PQcmdStatus(result)) }
    /// The number of rows that the statement changed.
    package var changes: Int { Int(String(cString: PQcmdTuples(result))) ?? 0 }

    package subscript(index: Int) -> Row { Row(rows: self, index: index) }

    package func map<Element>(_ body: (Row) throws -> Element) rethrows -> [Element] {
        try (0..<count).map { try body(self[$0]) }
    }

    /// A row; it keeps its result alive.
    package struct Row {
        fileprivate let rows: PostgresRows
        fileprivate let index: Int

        package var count: Int { rows.columnCount }

        /// Returns a column's value; nil is NULL.
        package subscript(column: Int) -> String? {
            let row = Int32(index)
            let column = Int32(column)
            guard PQgetisnull(rows.result, row, column) == 0, let value = PQgetvalue(rows.result, row, column) else {
                return nil
            }
            return String(cString: value)
        }

        /// Returns a column's value; NULL is the empty text.
        package func text(_ column: Int) -> String { self[column] ?? "" }

        package func integer(_ column: Int) -> Int64? { self[column].flatMap { Int64($0) } }

        /// Returns a column's value as a Boolean; NULL is false.
        package func isTrue(_ column: Int) -> Bool { self[column] == "t" }
    }
}
