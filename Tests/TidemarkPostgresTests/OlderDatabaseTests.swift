import StoreTestSupport
import Testing
import TidemarkCore

/// A database that an earlier version served.
@Suite struct OlderDatabaseTests {
    @Test func `a database without commit times, unlogged values and contacts goes on and gets them`() async throws {
        let cluster = try await PostgresCluster(
            adopting: """
                CREATE TABLE place (id serial PRIMARY KEY, name text, size int);
                INSERT INTO place (name, size) VALUES ('Kiel', 1)
                """
        )
        let anna = try await cluster.device("anna")
        try await anna.write("UPDATE place SET name = 'Ulm'")
        try await anna.engine.sync()
        try await cluster.psql(
            """
            ALTER TABLE tidemark.revision DROP COLUMN committed;
            ALTER TABLE tidemark.log DROP COLUMN unlogged;
            DROP TABLE tidemark.contact
            """
        )
        let node = try await cluster.node { _ in }
        try await anna.write("UPDATE place SET name = 'Bonn', size = 2")
        try await anna.engine.sync()
        let times = "SELECT revision, (committed > 0)::int FROM tidemark.revision ORDER BY revision"
        #expect(try await cluster.rows(times) == ["2|0", "3|1"])
        let logged = try await cluster.rows("SELECT coalesce(unlogged, '-') FROM tidemark.log ORDER BY revision")
        #expect(logged == ["-", #"{"size":1}"#])
        #expect(try await cluster.rows("SELECT count(*) FROM tidemark.contact") == ["0"])
        await node.close()
        await cluster.close()
    }
}
