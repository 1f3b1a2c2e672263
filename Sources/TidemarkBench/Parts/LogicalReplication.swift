import TidemarkPostgres

/// PostgreSQL's logical replication of a table from one database to another: the time of a row.
final class LogicalReplication: Sendable {
    private static let slot = "tidemark_bench"
    private let source: BenchDatabase
    private let target: BenchDatabase

    /// Whether a server is configured for it.
    static func isPossible(on server: String) -> Bool {
        // A server that cannot be reached cannot replicate either.
        (try? PostgresConnection(server).text("SHOW wal_level")) == "logical"
    }

    /// Replicates a table with so many rows.
    init(on server: String, rows: Int) throws {
        source = try BenchDatabase(on: server)
        target = try BenchDatabase(on: server)
        let from = try PostgresConnection(source.address)
        let to = try PostgresConnection(target.address)
        for pg in [from, to] {
            try pg.execute(
                """
                CREATE TABLE item (id bigint PRIMARY KEY, note text, mark text);
                INSERT INTO item SELECT i, 'a note of some words about item ' || i, ''
                    FROM generate_series(1, \(max(rows, 1))) AS i
                """)
        }
        try from.execute("CREATE PUBLICATION bench FOR TABLE item")
        // Made separately, since a subscription within one server would wait for itself.
        try from.execute("SELECT pg_create_logical_replication_slot('\(Self.slot)', 'pgoutput')")
        try to.execute(
            """
            CREATE SUBSCRIPTION bench CONNECTION '\(source.address)' PUBLICATION bench
            WITH (create_slot = false, slot_name = '\(Self.slot)', copy_data = false)
            """)
    }

    /// Commits rows, one after another, and polls until each has arrived.
    func follow(_ commits: Int) async throws -> Sample {
        var latencies: [Double] = []
        for _ in 0..<commits {
            try await Pause.last(.milliseconds(50))
            latencies.append(try await onThread { try self.follow() })
        }
        return Sample(seconds: latencies.reduce(0, +), latencies: latencies)
    }

    private func follow() throws -> Double {
        let from = try PostgresConnection(source.address)
        let to = try PostgresConnection(target.address)
        let mark = RandomID.text()
        let look = "SELECT mark FROM item WHERE id = 1"
        let change = "UPDATE item SET mark = $1 WHERE id = 1"
        // Both statements are prepared before the time counts.
        try from.query(change, [RandomID.text()])
        _ = try to.text(look)
        let start = ContinuousClock.now
        try from.query(change, [mark])
        while try to.text(look) != mark {}
        return (ContinuousClock.now - start) / .seconds(1)
    }

    /// Removes both databases.
    func end() throws {
        try PostgresConnection(target.address).execute("DROP SUBSCRIPTION bench")
        try target.drop()
        try source.drop()
    }
}
