import CLibPQ
import Foundation

/// One connection to PostgreSQL, through libpq: synchronous, for one thread at a time.
///
/// Addresses, passwords and TLS follow libpq's own rules (`postgres://` or `key=value`,
/// `PGPASSWORD`, `~/.pgpass`, `sslmode`). Values travel as text. A statement is prepared the first
/// time that it runs, and planned once.
///
/// A request's records are few beside a table's rows, which the planner cannot know of a parameter:
/// it is told to look rows up by their keys, also where a table is small or was when the statement
/// was planned. Whatever reads whole tables does it within ``scanning(_:)``.
package final class PostgresConnection {
    /// What the server is told once, whatever its own settings are.
    package struct Settings: Sendable {
        /// The longest that a statement may run, in milliseconds.
        package var statementTimeout = 60_000
        /// The longest that a statement waits for a lock, in milliseconds.
        package var lockTimeout = 10_000
        /// The longest that a transaction may lie idle, for instance because this process is
        /// stopped, in milliseconds.
        package var idleInTransactionTimeout = 30_000
        /// The longest that connecting may take, in seconds.
        package var connectTimeout = 10

        /// The standard settings.
        package init() {}
    }

    let handle: OpaquePointer
    /// The names of the statements that are prepared.
    var prepared: [String: String] = [:]
    private var position: CataloguePosition?

    /// Connects, and waits until that is done.
    ///
    /// - Throws: ``PostgresFailure``.
    package init(_ address: String, _ settings: Settings = Settings()) throws {
        try PostgresAddress.check(address)
        let keywords = ["dbname", "client_encoding", "application_name", "connect_timeout"]
        let values = [address, "UTF8", "tidemark", "\(settings.connectTimeout)"]
        let opened = Self.withCStrings(keywords.map(Optional.some) + [nil]) { keywords in
            Self.withCStrings(values.map(Optional.some) + [nil]) { values in PQconnectdbParams(keywords, values, 1) }
        }
        guard let opened else { throw PostgresFailure(state: "", message: "no memory") }
        handle = opened
        guard PQstatus(handle) == CONNECTION_OK else {
            let message = String(cString: PQerrorMessage(handle))
            throw PostgresFailure(state: "", message: message)
        }
        PQsetNoticeProcessor(handle, { _, _ in }, nil)
        try execute(
            """
            SET statement_timeout = \(settings.statementTimeout);
            SET lock_timeout = \(settings.lockTimeout);
            SET idle_in_transaction_session_timeout = \(settings.idleInTransactionTimeout);
            SET default_transaction_isolation = 'read committed';
            SET standard_conforming_strings = on;
            SET bytea_output = 'hex';
            SET extra_float_digits = 1;
            SET datestyle = 'ISO, YMD';
            SET intervalstyle = 'postgres';
            SET timezone = 'UTC';
            SET tidemark.engine = 'on';
            SET jit = off;
            SET plan_cache_mode = force_generic_plan;
            SET enable_hashjoin = off;
            SET enable_mergejoin = off;
            SET enable_seqscan = off;
            """
        )
        // What is acknowledged must be on disk, also where the database is set to be quicker.
        if try ["off", "local"].contains(text("SHOW synchronous_commit") ?? "") {
            try execute("SET synchronous_commit = on")
        }
    }

    deinit { PQfinish(handle) }

    /// Whether the connection can be used.
    package var isUsable: Bool { PQstatus(handle) == CONNECTION_OK }

    /// Whether a transaction is open.
    package var isInTransaction: Bool { PQtransactionStatus(handle) != PQTRANS_IDLE }

    // MARK: Notifications

    /// Waits until a notification is there, another file can be read, or the time is over.
    ///
    /// - Returns: The payloads that have arrived.
    /// - Throws: ``PostgresFailure`` when the connection is lost.
    package func notifications(or descriptor: Int32, milliseconds: Int32) throws -> [String] {
        var files = [
            pollfd(fd: PQsocket(handle), events: Int16(POLLIN), revents: 0),
            pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0),
        ]
        poll(&files, nfds_t(files.count), milliseconds)
        guard PQconsumeInput(handle) == 1, PQstatus(handle) == CONNECTION_OK else {
            throw PostgresFailure(state: "", message: String(cString: PQerrorMessage(handle)))
        }
        var payloads: [String] = []
        while let notification = PQnotifies(handle) {
            payloads.append(String(cString: notification.pointee.extra))
            PQfreemem(notification)
        }
        return payloads
    }

    // MARK: Statements

    /// Runs statements without parameters and without a result.
    package func execute(_ sql: String) throws { PQclear(try checked(PQexec(handle, sql), sql)) }

    /// Commits.
    ///
    /// PostgreSQL answers `COMMIT` of a transaction that has failed before with `ROLLBACK`, which
    /// is no error to it.
    package func commit() throws {
        let result = try checked(PQexec(handle, "COMMIT"), "COMMIT")
        defer { PQclear(result) }
        guard String(cString: PQcmdStatus(result)) == "COMMIT" else {
            throw PostgresFailure(state: "40000", message: "the transaction was rolled back")
        }
    }

    /// Runs one statement once, without preparing it.
    package func rows(_ sql: String) throws -> PostgresRows { PostgresRows(try checked(PQexec(handle, sql), sql)) }

    /// Runs one statement; `$1`, `$2` and so on are the parameters, as text.
    ///
    /// A parameter with NUL is refused: libpq would take what stands before it.
    @discardableResult package func query(_ sql: String, _ parameters: [String?] = []) throws -> PostgresRows {
        try Self.refuseNUL(parameters, sql)
        let name = try prepare(sql)
        let result = Self.withCStrings(parameters) {
            PQexecPrepared(handle, name, Int32(parameters.count), $0, nil, nil, 0)
        }
        return PostgresRows(try checked(result, sql))
    }

    /// Runs one statement, and hands over its rows one by one: libpq has no more than one of them
    /// at a time.
    ///
    /// `body` must not use the connection.
    package func each(_ sql: String, _ parameters: [String?] = [], _ body: (PostgresRows.Row) throws -> Void) throws {
        try Self.refuseNUL(parameters, sql)
        let name = try prepare(sql)
        let isSent = Self.withCStrings(parameters) {
            PQsendQueryPrepared(handle, name, Int32(parameters.count), $0, nil, nil, 0)
        }
        guard isSent == 1, PQsetSingleRowMode(handle) == 1 else {
            throw PostgresFailure(state: "", message: String(cString: PQerrorMessage(handle)))
        }
        // All results have to be taken, whatever becomes of them.
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

    /// The first column of the first row; nil when there is no row, or NULL.
    package func text(_ sql: String, _ parameters: [String?] = []) throws -> String? {
        let rows = try query(sql, parameters)
        return rows.isEmpty ? nil : rows[0][0]
    }

    /// The first column of the first row, as an integer.
    package func integer(_ sql: String, _ parameters: [String?] = []) throws -> Int64? {
        try text(sql, parameters).flatMap { Int64($0) }
    }

    static func refuseNUL(_ parameters: [String?], _ sql: String) throws {
        guard !parameters.contains(where: { $0?.utf8.contains(0) == true }) else {
            throw PostgresFailure(state: "22021", message: "a parameter has NUL", sql: sql)
        }
    }

    /// Runs `body`, whose statements may read tables from one end to the other.
    func scanning<Result>(_ body: () throws -> Result) throws -> Result {
        try execute("SET enable_hashjoin = on; SET enable_mergejoin = on; SET enable_seqscan = on")
        let result = Swift.Result { try body() }
        // In a transaction that has failed nothing can be set; its end sets everything back.
        if isUsable, PQtransactionStatus(handle) != PQTRANS_INERROR {
            try execute("SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_seqscan = off")
        }
        return try result.get()
    }

    /// Forgets all prepared statements.
    func forgetStatements() throws {
        prepared.removeAll()
        try execute("DEALLOCATE ALL")
    }

    /// Forgets what was prepared for tables that somebody has altered since.
    func prepareAnew(for position: CataloguePosition) throws {
        if self.position != nil, self.position != position { try forgetStatements() }
        self.position = position
    }

    /// The statements that stay prepared; their texts depend on which columns a request sets.
    static let preparedMax = 1_000

    private func prepare(_ sql: String) throws -> String {
        if let name = prepared[sql] { return name }
        if prepared.count >= Self.preparedMax { try forgetStatements() }
        let name = "t\(prepared.count + 1)"
        PQclear(try checked(PQprepare(handle, name, sql, 0, nil), sql))
        prepared[sql] = name
        return name
    }

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
            state: isLost ? "" : field("C") ?? "",
            message: field("M") ?? String(cString: PQerrorMessage(handle)),
            table: field("t"),
            column: field("c"),
            constraint: field("n"),
            source: field("R"),
            sql: sql
        )
    }

    /// Runs `body` with an array of C strings.
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

    /// The number of rows.
    package var count: Int { Int(PQntuples(result)) }

    /// Whether there is none.
    package var isEmpty: Bool { count == 0 }

    /// What the statement did: `COMMIT` for one that committed.
    package var command: String { String(cString: PQcmdStatus(result)) }
    /// How many rows the statement changed.
    package var changes: Int { Int(String(cString: PQcmdTuples(result))) ?? 0 }

    /// One row.
    package subscript(index: Int) -> Row { Row(rows: self, index: index) }

    /// All rows, each made into something.
    package func map<Element>(_ body: (Row) throws -> Element) rethrows -> [Element] {
        try (0..<count).map { try body(self[$0]) }
    }

    /// A row, valid as long as its result.
    package struct Row {
        fileprivate let rows: PostgresRows
        fileprivate let index: Int

        /// A value by the number of its column; nil is NULL.
        package subscript(column: Int) -> String? {
            let row = Int32(index)
            let column = Int32(column)
            guard PQgetisnull(rows.result, row, column) == 0, let value = PQgetvalue(rows.result, row, column) else {
                return nil
            }
            return String(cString: value)
        }

        /// A value that is not NULL.
        package func text(_ column: Int) -> String { self[column] ?? "" }

        /// A value as an integer.
        package func integer(_ column: Int) -> Int64? { self[column].flatMap { Int64($0) } }

        /// A value as a truth value; NULL is false.
        package func isTrue(_ column: Int) -> Bool { self[column] == "t" }
    }
}
