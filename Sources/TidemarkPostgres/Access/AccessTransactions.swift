import GRDB
package import TidemarkEngine

/// The users, tokens and members of a server with PostgreSQL: tables in schema `tidemark`.
package final class AccessTransactions: AccessDatabase {
    private let pool: PostgresPool

    /// Makes the tables where they are missing.
    package init(address: String) async throws {
        pool = PostgresPool(address: address, settings: PostgresConnection.Settings(), sizeMax: 2)
        try await pool.run { pg, _ in
            try pg.execute("BEGIN; CREATE SCHEMA IF NOT EXISTS tidemark; SET LOCAL search_path = tidemark")
            // Nodes start at the same time, and CREATE TABLE IF NOT EXISTS of two sessions can collide.
            try pg.execute("SELECT pg_advisory_xact_lock(hashtext('tidemark.access'))")
            for statement in AccessTables.statements { try pg.execute(statement) }
            try pg.execute(
                """
                CREATE TABLE IF NOT EXISTS tidemark_access (
                    id integer PRIMARY KEY CHECK (id = 1),
                    version bigint NOT NULL);
                INSERT INTO tidemark_access VALUES (1, 0) ON CONFLICT DO NOTHING
                """
            )
            try pg.commit()
        }
    }

    /// Runs `body` in a transaction that holds the row of the version, so that writers wait for one another.
    package func transaction<Success: Sendable>(
        _ body: @escaping @Sendable (any AccessStatements) throws -> Success
    ) async throws -> Success {
        try await pool.run { pg, _ in
            try pg.execute("BEGIN; SET LOCAL search_path = tidemark")
            do {
                _ = try pg.query("SELECT version FROM tidemark_access FOR UPDATE")
                let statements = Statements(pg: pg)
                let result = try body(statements)
                if statements.hasWritten {
                    _ = try pg.query("UPDATE tidemark_access SET version = version + 1")
                }
                try pg.commit()
                return result
            } catch {
                if pg.isUsable { try pg.execute("ROLLBACK") }
                throw error
            }
        }
    }

    /// Returns the version, which every writing transaction raises.
    package func version() async throws -> Int64 {
        try await pool.run { pg, _ in try pg.integer("SELECT version FROM tidemark.tidemark_access") ?? 0 }
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
