import Foundation
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkPostgres
import TidemarkTestSupport

/// Rule 38: tables and rows that capture or a device cannot handle: refused at the adoption, or at
/// the insert.
@Suite struct UnseenWriteTests {
    private func adopt(_ sql: String) async throws -> PostgresStore {
        let database = try await TestDatabase()
        try await database.connect().execute(sql)
        var options = PostgresStore.Options(address: database.address, newEpoch: UUID())
        options.adopts = true
        return try await PostgresStore(options)
    }

    @Test func `F5: tables whose rows can change without triggers are refused with the cure`() async throws {
        let error = await #expect(throws: UnsyncableSchema.self) {
            try await adopt(
                """
                CREATE UNLOGGED TABLE cache (id int PRIMARY KEY);
                CREATE TABLE city (id int PRIMARY KEY, name text);
                CREATE TABLE capital (PRIMARY KEY (id)) INHERITS (city);
                CREATE TABLE secret (id int PRIMARY KEY);
                ALTER TABLE secret ENABLE ROW LEVEL SECURITY;
                ALTER TABLE secret FORCE ROW LEVEL SECURITY;
                CREATE TABLE sample (id int PRIMARY KEY, value double precision NOT NULL);
                INSERT INTO sample VALUES (1, 'NaN');
                CREATE TABLE fine (id int PRIMARY KEY, value double precision);
                INSERT INTO fine VALUES (1, 'NaN');
                """
            )
        }
        let cures = Dictionary(uniqueKeysWithValues: (error?.problems ?? []).map { ($0.table, $0.cure) })
        #expect(cures.keys.sorted() == ["cache", "capital", "city", "sample", "secret"])
        #expect(cures["cache"]?.contains("SET LOGGED;") == true)
        #expect(cures["capital"]?.contains("NO INHERIT city;") == true)
        #expect(cures["secret"]?.contains("NO FORCE ROW LEVEL SECURITY;") == true)
        #expect(cures["sample"]?.contains("WHERE \"value\" = 'NaN';") == true)
    }

    @Test func `a row that devices cannot store is refused at the insert, and the zone continues`() async throws {
        let cluster = try await PostgresCluster(
            adopting: """
                CREATE TABLE sample (id int PRIMARY KEY, value real NOT NULL, spare real);
                INSERT INTO sample VALUES (1, 1, 'NaN');
                """
        )
        let anna = try await cluster.device("anna")
        for sql in ["INSERT INTO sample VALUES (2, 'NaN', 0)", "UPDATE sample SET value = 'NaN'"] {
            await #expect(throws: (any Error).self, "\(sql)") { try await cluster.psql(sql) }
        }
        try await cluster.psql("INSERT INTO sample VALUES (3, 'Infinity', 'NaN')")
        try await cluster.converge(anna)
        #expect(try await anna.rows("SELECT id FROM sample ORDER BY id") == ["1", "3"])
        await cluster.close()
    }

    @Test(arguments: [
        ("uuid", "6f6d3a4e-0000-4000-8000-000000000001", "6f6d3a4e-0000-4000-8000-000000000002"),
        ("date", "2026-11-23", "2026-11-24"), ("varchar(8)", "one", "two"), ("char(1)", "a", "b"),
        ("varchar(2)", "aa", "bb"), ("numeric(4,2)", "12.25", "99.99"), ("smallint", "1", "2"),
        ("timestamptz", "2026-11-23 10:00:00+00", "2026-11-24 10:00:00+00"),
        ("timestamp", "2026-11-23 10:00:00", "2026-11-24 10:00:00"), ("jsonb", "1", "2"),
        ("interval", "1 day", "2 days"), ("numeric", "1", "2"), ("varchar", "one", "two"),
        ("time", "08:00:00", "09:30:00"), ("text[]", "{a,b}", "{c}"), ("integer[]", "{1}", "{2,3}"),
        ("int4range", "[1,5)", "[5,9)"), ("daterange", "[2026-11-23,2026-11-24)", "[2026-11-24,2026-11-25)"),
        ("timetz", "08:00:00+00", "09:30:00+00"), ("inet", "10.0.0.1", "10.0.0.2"),
        ("cidr", "10.0.0.0/8", "11.0.0.0/8"),
    ]) func `rule 18: two records swap a unique value of any type`(type: String, one: String, two: String)
        async throws
    {
        let cluster = try await PostgresCluster(
            adopting: """
                CREATE TABLE thing (id int PRIMARY KEY, code \(type) NOT NULL UNIQUE);
                INSERT INTO thing VALUES (1, '\(one)'), (2, '\(two)');
                """
        )
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        let swap = { (a: String, b: String, spare: String) in
            """
            UPDATE thing SET code = '\(spare)' WHERE id = 1;
            UPDATE thing SET code = '\(a)' WHERE id = 2; UPDATE thing SET code = '\(b)' WHERE id = 1
            """
        }
        let spare = ["smallint": "77", "numeric(4,2)": "77.00", "numeric": "77"][type] ?? "zz"
        try await anna.write(swap(one, two, spare))
        try await cluster.converge(anna, ben)
        #expect(try await anna.engine.conflicts().isEmpty)
        #expect(try await ben.rows("SELECT code FROM thing ORDER BY id") == [two, one])
        await cluster.close()
    }

    @Test(arguments: ["", "NOT NULL"]) func `rule 18: two records swap a value under a partial unique index`(
        null: String
    ) async throws {
        let cluster = try await PostgresCluster(
            adopting: """
                CREATE TABLE thing (id int PRIMARY KEY, code text \(null), live boolean NOT NULL);
                CREATE UNIQUE INDEX thing_live ON thing (code) WHERE live;
                INSERT INTO thing VALUES (1, 'one', true), (2, 'two', true), (3, 'one', false);
                """
        )
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("UPDATE thing SET code = CASE id WHEN 1 THEN 'two' ELSE 'one' END WHERE id < 3")
        try await cluster.converge(anna, ben)
        #expect(try await anna.engine.conflicts().isEmpty)
        #expect(try await ben.rows("SELECT code FROM thing ORDER BY id") == ["two", "one", "one"])
        await cluster.close()
    }
}
