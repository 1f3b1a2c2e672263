import Foundation
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkPostgres
import TidemarkTestSupport

/// Ids of tables that Tidemark creates: programs and nodes draw them from one sequence.
@Suite struct IdentityTests {
    private static func create(_ name: String, as id: Int = -1) -> String {
        #"{"team":{"create":[\#(id)],"attributes":{"\#(id)":{"name":"\#(name)"}}}}"#
    }

    @Test func `an id that psql draws is never assigned to a device`() async throws {
        let zone = try await PostgresZone()
        try await zone.database.writeOutside("INSERT INTO team (name) VALUES ('psql 1'), ('psql 2')")
        let first = try await zone.sync(at: 0, Self.create("device"))
        #expect(first.changes == ["create team 1", "create team 2", "create team 3"])
        try await zone.database.writeOutside("INSERT INTO team (name) VALUES ('psql 4')")
        #expect(try await zone.column("SELECT id FROM team ORDER BY id") == ["1", "2", "3", "4"])
    }

    @Test func `rows copied from a file keep their ids, and new ids follow`() async throws {
        let seed = "INSERT INTO team (id, name) VALUES (7, 'Kiel'), (70, 'Ulm');"
        let zone = try await PostgresZone(schema: PostgresZone.schema + seed)
        try await zone.database.writeOutside("INSERT INTO team (name) VALUES ('psql')")
        let answer = try await zone.sync(at: 1, Self.create("device"))
        #expect(answer.changes == ["create team 71", "create team 72"])
    }

    @Test(arguments: [(5, "6"), (9_000_000_000, "2")])
    func `a program that inserts its own ids does not block the sequence`(id: Int, next: String) async throws {
        let zone = try await PostgresZone()
        try await zone.database.writeOutside("INSERT INTO team (id, name) VALUES (\(id), 'A'), (1, 'B')")
        let answer = try await zone.sync(at: 0, Self.create("device"))
        #expect(answer.changes.last == "create team \(next)")
    }

    @Test func `identities are added at the start to a database of an earlier version`() async throws {
        let zone = try await PostgresZone()
        _ = try await zone.sync(at: 0, Self.create("first"))
        try await zone.database.writeOutside(
            """
            ALTER TABLE team ALTER COLUMN id DROP IDENTITY;
            ALTER TABLE player ALTER COLUMN id DROP IDENTITY;
            ALTER TABLE tidemark.served DROP COLUMN has_identities
            """
        )
        _ = try await zone.sync(at: 1, Self.create("second"))
        let node = try await zone.node()
        try await zone.database.writeOutside("INSERT INTO team (name) VALUES ('psql')")
        // The older node draws from the sequence, too.
        let answer = try await zone.sync(at: 2, Self.create("third"))
        #expect(answer.changes == ["create team 3", "create team 4"])
        let epochs = try await (zone.store.latest(zone: "main"), node.latest(zone: "main"))
        #expect(epochs.0 == epochs.1)
        await node.close()
    }

    @Test func `a start does not wait for a lock on a table without an identity`() async throws {
        let zone = try await PostgresZone()
        try await zone.database.writeOutside(
            """
            ALTER TABLE team ALTER COLUMN id DROP IDENTITY;
            UPDATE tidemark.served SET has_identities = false
            """
        )
        let other = try await zone.database.connect()
        try await other.execute("BEGIN; INSERT INTO team (id, name) VALUES (1, 'held')")
        let node = try await zone.node()
        #expect(try await zone.column("SELECT has_identities FROM tidemark.served") == ["f"])
        try await other.execute("COMMIT")
        await node.close()
        let next = try await zone.node()
        #expect(try await zone.column("SELECT has_identities FROM tidemark.served") == ["t"])
        try await zone.database.writeOutside("INSERT INTO team (name) VALUES ('psql')")
        await next.close()
    }

    @Test func `a role whose search path hits the bookkeeping tables is refused with the cure`() async throws {
        let database = try await TestDatabase()
        let admin = try await database.connect()
        let name = try await admin.column("SELECT quote_ident(current_database())")[0]
        try await admin.execute("ALTER DATABASE \(name) SET search_path = tidemark, public")
        var options = PostgresStore.Options(address: database.address, newEpoch: UUID())
        options.schemaSQL = PostgresZone.schema
        let error = await #expect(throws: TidemarkError.self) { try await PostgresStore(options) }
        #expect(error?.code == .unusableFile)
        #expect(error?.fix.contains("SET search_path = \"public\"") == true)
        #expect(try await admin.column("SELECT to_regclass('public.team')") == ["NULL"])
    }

    @Test func `rule 11: a new record with a taken unique value in a table of 32-bit ids is a conflict, not a failure`()
        async throws
    {
        let cluster = try await PostgresCluster(
            adopting: """
                CREATE TABLE team (id int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, name text UNIQUE);
                CREATE TABLE player (id int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
                    team_id int REFERENCES team, name text, UNIQUE (team_id, name))
                """
        )
        let anna = try await cluster.device("anna")
        try await cluster.psql("INSERT INTO team (name) VALUES ('Kiel')")
        try await anna.write(
            """
            INSERT INTO team (name) VALUES ('Kiel');
            INSERT INTO player (team_id, name) SELECT id, 'Anna' FROM team
            """
        )
        try await cluster.settle([anna])
        #expect(try await anna.engine.conflicts().map(\.reasons.first?.rule) == ["unique"])
        #expect(try await anna.rows("SELECT id, name FROM team") == ["1|Kiel"])
        await cluster.close()
    }
}
