import StoreTestSupport
import Testing
import TidemarkCore

/// A database that an earlier version served.
@Suite struct OlderDatabaseTests {
    @Test func `a database without commit times, replaced values and contacts goes on and gets them`() async throws {
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
            ALTER TABLE tidemark.log DROP COLUMN replaced;
            DROP TABLE tidemark.contact
            """
        )
        let node = try await cluster.node { _ in }
        try await anna.write("UPDATE place SET name = 'Bonn', size = 2")
        try await anna.engine.sync()
        let times = "SELECT revision, (committed > 0)::int FROM tidemark.revision ORDER BY revision"
        #expect(try await cluster.rows(times) == ["2|0", "3|1"])
        let logged = try await cluster.rows("SELECT coalesce(replaced, '-') FROM tidemark.log ORDER BY revision")
        #expect(logged == ["-", #"{"name":"Ulm","size":1}"#])
        #expect(try await cluster.rows("SELECT count(*) FROM tidemark.contact") == ["0"])
        await node.close()
        await cluster.close()
    }

    @Test func `the values that changes of an older version replaced are found in its change sets`() async throws {
        let cluster = try await PostgresCluster(
            adopting: """
                CREATE TABLE place (id serial PRIMARY KEY, name text, size int);
                INSERT INTO place (name, size) VALUES ('Kiel', 1)
                """
        )
        let anna = try await cluster.device("anna")
        for edit in [
            "INSERT INTO place (id, name) VALUES (-1, 'Ulm')", "UPDATE place SET name = 'Bonn'",
            "UPDATE place SET name = 'Jena' WHERE size = 1", "DELETE FROM place",
        ] {
            try await anna.write(edit)
            try await anna.engine.sync()
        }
        let logged = "SELECT revision, key, coalesce(replaced, '-') FROM tidemark.log ORDER BY revision, key"
        let first = try await cluster.rows(logged)
        #expect(first.contains(#"5|2|{"name":"Bonn","size":null}"#), "\(first)")
        try await cluster.psql(
            """
            ALTER TABLE tidemark.log ADD COLUMN unlogged text;
            UPDATE tidemark.log SET unlogged = CASE
                WHEN key = '1' AND revision = 3 THEN '{"name":"Kiel"}'
                WHEN key = '1' AND operation = 'delete' THEN '{"size":1}' END;
            ALTER TABLE tidemark.log DROP COLUMN replaced
            """
        )
        let node = try await cluster.node { _ in }
        #expect(try await cluster.rows(logged) == first)
        await node.close()
        await cluster.close()
    }
}
