import Foundation
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkPostgres

/// Adopted tables without a primary key are known by a unique index; negative ids stay as they are.
@Suite struct AdoptedKeyTests {
    private static let schema = """
        CREATE TABLE setting (name text NOT NULL UNIQUE, value text);
        CREATE TABLE pair (x integer NOT NULL, y integer NOT NULL, z integer NOT NULL UNIQUE, note text, UNIQUE (x, y));
        CREATE TABLE number (code integer NOT NULL UNIQUE, note text);
        CREATE TABLE srs (srs_id integer PRIMARY KEY, name text, parent integer REFERENCES srs);
        INSERT INTO setting VALUES ('theme', 'dark');
        INSERT INTO pair VALUES (1, 2, 3, 'a');
        INSERT INTO number VALUES (7, 'seven');
        INSERT INTO srs VALUES (-1, 'cartesian', -1), (0, 'geographic', -1), (5, 'five', 0);
        """

    @Test func `tables with unique NOT NULL columns sync from devices and from psql`() async throws {
        let cluster = try await PostgresCluster(adopting: Self.schema, keys: ["pair": ["x", "y"]])
        let anna = try await cluster.device("anna")
        let keys = cluster.store.schema.tables.map { table in
            "\(table.name) \(table.keyKind.rawValue) \(table.key.joined(separator: ","))"
        }
        #expect(
            keys.sorted() == ["number general code", "pair general x,y", "setting text name", "srs integer srs_id"])
        try await anna.write("INSERT INTO setting VALUES ('size', '1'); UPDATE pair SET note = 'b'")
        try await anna.write("INSERT INTO number VALUES (8, 'eight')")
        try await cluster.psql(
            "UPDATE setting SET value = 'light' WHERE name = 'theme'; DELETE FROM number WHERE code = 7")
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT value FROM setting ORDER BY name") == ["1", "light"])
        #expect(try await anna.rows("SELECT code, note FROM number") == ["8|eight"])
        #expect(try await cluster.rows("SELECT note FROM pair") == ["b"])
        // The key stays, although another index has fewer columns; an added column is followed.
        try await cluster.psql("ALTER TABLE pair ADD COLUMN stars integer; UPDATE pair SET note = 'c'")
        try await anna.engine.sync()
        #expect(cluster.store.schema.byName["pair"]?.key == ["x", "y"])
        await cluster.close()
    }

    @Test func `negative ids of an adopted table are edited under these ids, by devices and by psql`() async throws {
        let cluster = try await PostgresCluster(adopting: Self.schema)
        let anna = try await cluster.device("anna")
        try await anna.write("UPDATE srs SET name = 'edited' WHERE srs_id = -1")
        try await anna.write("INSERT INTO srs (name, parent) VALUES ('new', -1)")
        try await cluster.psql("UPDATE srs SET name = 'zero' WHERE srs_id = 0")
        try await cluster.converge(anna)
        try await cluster.psql(
            "UPDATE srs SET name = name || '!' WHERE srs_id = -1; ALTER TABLE srs ADD COLUMN note text")
        try await anna.engine.sync()
        #expect(try await anna.rows("SELECT name FROM srs WHERE srs_id <= 0 ORDER BY srs_id") == ["edited!", "zero"])
        #expect(try await cluster.rows("SELECT parent FROM srs WHERE name = 'new'") == ["-1"])
        await cluster.close()
    }

    @Test func `a declared key without a unique index is refused with the statements that make one`() async throws {
        let error = await #expect(throws: UnsyncableSchema.self) {
            try await PostgresCluster(adopting: "CREATE TABLE log (at text, note text)", keys: ["log": ["at"]])
        }
        #expect(error?.problems.first?.cure.contains("CREATE UNIQUE INDEX ON \"log\" (\"at\")") == true)
        let bare = await #expect(throws: UnsyncableSchema.self) {
            try await PostgresCluster(adopting: "CREATE TABLE log (at text, note text)")
        }
        #expect(bare?.problems.first?.reason.contains("no unique index") == true)
    }

    @Test func `a schema for SQLite whose table has only a rowid is refused for PostgreSQL`() async throws {
        let error = await #expect(throws: UnsyncableSchema.self) {
            try await PostgresCluster(schema: "CREATE TABLE log (at TEXT, note TEXT)")
        }
        #expect(error?.problems.first?.cure.contains("--key log=") == true)
    }
}
