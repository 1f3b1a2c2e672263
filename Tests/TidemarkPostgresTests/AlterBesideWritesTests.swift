import StoreTestSupport
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Inserts that wait for an `ALTER TABLE`, and types altered under existing rows.
@Suite struct AlterBesideWritesTests {
    private static func cluster() async throws -> PostgresCluster {
        try await PostgresCluster(
            schema: "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL, done INTEGER DEFAULT 0)")
    }

    /// An insert of a device and one of psql wait for an uncommitted `ALTER TABLE`.
    private static func insert(beside alter: String, _ cluster: PostgresCluster) async throws -> TestDevice {
        let anna = try await cluster.device("anna")
        let migration = try await cluster.database.connect()
        try await migration.execute("BEGIN; \(alter)")
        try await anna.write("INSERT INTO notes (text) VALUES ('rake')")
        async let syncing: Void = anna.engine.sync()
        async let inserting: Void = cluster.psql("INSERT INTO notes VALUES (77, 'psql')")
        try await cluster.untilWaiting(2)
        try await migration.execute("COMMIT")
        try await syncing
        try await inserting
        try await cluster.settle([anna])
        return anna
    }

    @Test(arguments: [
        "ALTER TABLE notes ADD COLUMN stars bigint NOT NULL DEFAULT 3",
        """
        ALTER TABLE notes ADD COLUMN stars bigint DEFAULT 3;
        ALTER TABLE notes ALTER COLUMN stars SET DEFAULT 5
        """, "ALTER TABLE notes RENAME COLUMN text TO body", "ALTER TABLE notes ALTER COLUMN done TYPE integer",
        "ALTER TABLE notes ADD COLUMN made timestamptz DEFAULT clock_timestamp()",
    ]) func `an insert that waits for ALTER TABLE succeeds and is captured whole`(alter: String) async throws {
        let cluster = try await Self.cluster()
        let anna = try await Self.insert(beside: alter, cluster)
        try await cluster.converge(try await cluster.device("fresh"))
        #expect(try await anna.engine.conflicts().isEmpty)
        let column = alter.contains("TO body") ? "body" : "text"
        #expect(try await cluster.rows("SELECT \(column) FROM notes ORDER BY 1") == ["psql", "rake"])
        await cluster.close()
    }

    @Test func `a new row whose column psql drops meanwhile is parked, and a retry succeeds`() async throws {
        let cluster = try await Self.cluster()
        let anna = try await Self.insert(beside: "ALTER TABLE notes DROP COLUMN done", cluster)
        let conflict = try #require(try await anna.engine.conflicts().first)
        #expect(conflict.reasons.map(\.rule) == ["unknownColumn"])
        try await anna.engine.resolve(conflict.id, with: .retry)
        try await cluster.settle([anna])
        #expect(try await cluster.rows("SELECT text FROM notes ORDER BY 1") == ["psql", "rake"])
        try await cluster.converge(try await cluster.device("fresh"))
        await cluster.close()
    }

    @Test(arguments: ["mood", "mood[]", "temper"])
    func `an enum label renamed by psql reaches the devices, and their edits use it`(type: String)
        async throws
    {
        let (calm, merry) = type == "mood[]" ? ("{calm}", "{merry}") : ("calm", "merry")
        let cluster = try await PostgresCluster(
            adopting: """
                CREATE TYPE mood AS ENUM ('calm', 'merry'); CREATE DOMAIN temper AS mood;
                CREATE TABLE cat (id int PRIMARY KEY, mood \(type) NOT NULL, name text);
                INSERT INTO cat VALUES (1, '\(calm)', 'Tom'), (2, '\(merry)', 'Mia')
                """
        )
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        let epoch = try await cluster.store.latest(zone: "main").epoch
        try await cluster.psql("ALTER TYPE mood ADD VALUE 'wild' BEFORE 'merry'")
        try await cluster.converge(anna, ben)
        #expect(try await cluster.store.latest(zone: "main").epoch == epoch, "no row has changed")
        try await anna.write("UPDATE cat SET name = 'Max' WHERE id = 2")
        try await ben.write("UPDATE cat SET name = 'Tim' WHERE id = 1")
        try await cluster.psql("ALTER TYPE mood RENAME VALUE 'calm' TO 'quiet'")
        try await cluster.converge(anna, ben)
        #expect(
            try await anna.rows("SELECT mood, name FROM cat ORDER BY id") == [
                "\(calm.replacing("calm", with: "quiet"))|Tom", "\(merry)|Max",
            ]
        )
        #expect(try await ben.engine.conflicts().flatMap(\.reasons).map(\.key) == ["1"])
        await cluster.close()
    }
}
