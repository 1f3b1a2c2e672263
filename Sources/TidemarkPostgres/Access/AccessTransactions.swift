package import Logging
package import TidemarkEngine

/// The users, tokens and members of a server with PostgreSQL: tables in schema `tidemark`.
package final class AccessTransactions: AccessDatabase {
    private let pool: PostgresPool
    private let logger: Logger
    private let versions: SharedReads<Int64>

    /// Makes the tables where they are missing; throws if the database cannot be reached or written.
    package init(address: String, logger: Logger = Logger(label: "tidemark.access")) async throws {
        self.logger = logger
        let pool = PostgresPool(address: address, sizeMax: 2)
        self.pool = pool
        versions = SharedReads {
            try await pool.runOnLivingConnection { pg in
                try PostgresFailure.beforeBegin { try pg.integer("SELECT version FROM tidemark.tidemark_access") ?? 0 }
            }
        }
        try await run { pg in
            try pg.transaction {
                // Nodes start at the same time, and CREATE ... IF NOT EXISTS of two sessions can collide.
                try pg.execute("SELECT pg_advisory_xact_lock(hashtext('tidemark.access'))")
                try pg.execute("CREATE SCHEMA IF NOT EXISTS tidemark; SET LOCAL search_path = tidemark")
                for statement in AccessTables.statements { try pg.execute(statement) }
                try pg.execute(
                    """
                    CREATE TABLE IF NOT EXISTS tidemark_access (
                        id integer PRIMARY KEY CHECK (id = 1),
                        version bigint NOT NULL);
                    INSERT INTO tidemark_access VALUES (1, 0) ON CONFLICT DO NOTHING
                    """)
            }
        }
    }

    /// Runs `body` in a transaction that holds the row of the version, so that writers wait for one another.
    package func transaction<Success: Sendable>(_ body: @escaping @Sendable (any AccessStatements) throws -> Success)
        async throws -> Success
    {
        try await run { pg in
            try pg.transaction("BEGIN; SET LOCAL search_path = tidemark") {
                _ = try pg.query("SELECT version FROM tidemark_access FOR UPDATE")
                let statements = Statements(pg: pg)
                let result = try body(statements)
                if statements.hasWritten { _ = try pg.query("UPDATE tidemark_access SET version = version + 1") }
                return result
            }
        }
    }

    /// Runs `body` in a transaction that can only read, takes no lock and writes nothing to the disk.
    package func read<Success: Sendable>(_ body: @escaping @Sendable (any AccessStatements) throws -> Success)
        async throws -> Success
    {
        try await run { pg in
            let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL search_path = tidemark"
            return try pg.transaction(begin) { try body(Statements(pg: pg)) }
        }
    }

    /// Returns the version, which every writing transaction raises; calls that wait at the same time share a query.
    package func version() async throws -> Int64 { try await translatingErrors { try await versions.read() } }

    private func run<Success: Sendable>(_ body: @escaping @Sendable (PostgresConnection) throws -> Success) async throws
        -> Success
    { try await translatingErrors { try await pool.runOnLivingConnection(body) } }

    private func translatingErrors<Success>(_ work: () async throws -> Success) async throws -> Success {
        do { return try await work() } catch let failure as PostgresFailure {
            logger.error(
                "the database of users failed",
                metadata: ["sqlstate": "\(failure.state)", "error": "\(failure.message)"])
            throw failure.clientError()
        }
    }

    private final class Statements: AccessStatements {
        private let pg: PostgresConnection
        private(set) var hasWritten = false

        init(pg: PostgresConnection) { self.pg = pg }

        func rows(_ sql: String, _ parameters: [String?]) throws -> [AccessRow] {
            if !sql.hasPrefix("SELECT") { hasWritten = true }
            let rows = try pg.query(sql, parameters)
            return (0..<rows.count).map { row in AccessRow((0..<rows.columnCount).map { rows[row][$0] }) }
        }
    }
}
