import Testing
import TidemarkTestSupport

/// Columns of SQLite's type class numeric, above all DATETIME, hold numbers and text on a device;
/// in PostgreSQL they are text.
@Suite struct DateColumnTests {
    @Test func `rule 17: a date stored as a number has the same fingerprint on all sides`() async throws {
        let cluster = try await PostgresCluster(
            schema: """
                CREATE TABLE visits (id INTEGER PRIMARY KEY, at DATETIME, day DATE, ref UUID UNIQUE)
                """,
            seed: "INSERT INTO visits (at, day) VALUES (1700000000, '2026-11-21'), (0.5, '2026')"
        )
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("INSERT INTO visits (at, day, ref) VALUES (1700000001.25, 2026, '007')")
        try await anna.write("UPDATE visits SET at = '1e3', ref = 'e7' WHERE id = 1")
        try await cluster.settle([anna, ben])
        try await cluster.psql("UPDATE visits SET day = '1999' WHERE id = 2")
        try await cluster.converge(anna, ben)
        let rows = try await ben.rows("SELECT at, typeof(at), day, typeof(day) FROM visits ORDER BY id")
        #expect(rows == ["1000|integer|2026-11-21|text", "0.5|real|1999|integer", "1700000001.25|real|2026|integer"])
        // Equal rows need no repair.
        #expect(try await ben.engine.verify().records.isEmpty)
        #expect(try await cluster.rows("SELECT ref FROM visits WHERE id = 3") == ["7"])
        await cluster.close()
    }
}
