import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkPostgres
import TidemarkTestSupport

/// Values are compared, bounded and read by their columns' types in PostgreSQL.
@Suite struct TypedValueTests {
    private static let upper = "AAFE5086-F9AD-4DD8-84D3-21A56909FA02"
    private static let lower = upper.lowercased()
    private static let documents = """
        CREATE TABLE author (id uuid PRIMARY KEY, name text, rank int DEFAULT 5);
        CREATE TABLE book (id uuid PRIMARY KEY, author_id uuid NOT NULL REFERENCES author, title text);
        """

    // MARK: One key in any spelling

    @Test func `an app that keeps a UUID in capitals edits, saves and references its record after the sync`()
        async throws
    {
        let cluster = try await PostgresCluster(adopting: Self.documents)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("INSERT INTO author (id, name) VALUES ('\(Self.upper)', 'new')")
        try await cluster.converge(anna, ben)
        try await anna.write("UPDATE author SET name = 'edited' WHERE id = '\(Self.upper)'")
        try await anna.write(
            "INSERT INTO book VALUES ('BBFE5086-F9AD-4DD8-84D3-21A56909FA02', '\(Self.upper)', 'first')")
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT id, name FROM author") == ["\(Self.lower)|edited"])
        #expect(try await ben.rows("SELECT author_id, title FROM book") == ["\(Self.lower)|first"])
        try await anna.write("DELETE FROM book WHERE author_id = '\(Self.upper)'")
        try await anna.write("DELETE FROM author WHERE id = '\(Self.upper)'")
        try await cluster.converge(anna, ben)
        #expect(try await anna.engine.conflicts().isEmpty)
        #expect(try await cluster.rows("SELECT id FROM author").isEmpty)
        await cluster.close()
    }

    @Test(arguments: [
        "INSERT OR REPLACE INTO author (id, name) VALUES ('\(upper)', 'saved')",
        "UPDATE author SET name = 'saved'; INSERT OR REPLACE INTO author VALUES ('\(upper)', 'saved', 5)",
        "UPDATE author SET id = '\(upper)', name = 'saved' WHERE id = '\(lower)'",
        "DELETE FROM author; INSERT INTO author (id, name) VALUES ('{\(upper)}', 'saved')",
        "DELETE FROM author; INSERT INTO author (id, name) VALUES ('\(upper.replacing("-", with: ""))', 'saved')",
    ]) func `an app that saves its record under another spelling of the key updates it`(statements: String) async throws
    {
        let cluster = try await PostgresCluster(adopting: Self.documents)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("INSERT INTO author (id, name) VALUES ('\(Self.upper)', 'new')")
        try await cluster.converge(anna, ben)
        try await anna.write(statements)
        try await cluster.converge(anna, ben)
        #expect(try await anna.engine.conflicts().isEmpty)
        for device in [anna, ben] {
            #expect(try await device.rows("SELECT id, name FROM author") == ["\(Self.lower)|saved"])
        }
        await cluster.close()
    }

    @Test func `A6: a record saved under another spelling of its key does not overwrite an unseen edit`() async throws {
        let cluster = try await PostgresCluster(adopting: Self.documents)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("INSERT INTO author (id, name) VALUES ('\(Self.upper)', 'new')")
        try await cluster.converge(anna, ben)
        try await ben.write("UPDATE author SET name = 'ben'")
        try await ben.engine.sync()
        try await anna.write("INSERT OR REPLACE INTO author (id, name) VALUES ('\(Self.upper)', 'anna')")
        try await cluster.converge(anna, ben)
        #expect(try await anna.engine.conflicts().map(\.reasons.first?.rule) == ["changed"])
        #expect(try await anna.rows("SELECT id, name FROM author") == ["\(Self.lower)|ben"])
        await cluster.close()
    }

    // MARK: One value in any spelling

    /// A type, a value as an app spells it, and another value.
    private static let spellings = [
        ("timestamptz", "2026-11-24T07:00:00+01:00", "2027-01-01 00:00:00+00"),
        ("uuid", upper, "bbfe5086-f9ad-4dd8-84d3-21a56909fa02"), ("numeric(38,2)", "1.5", "2.00"),
        ("interval", "90 min", "2 days"), ("jsonb", #"{"b":1,"a":2}"#, "{}"), ("date", "20261124", "2027-01-01"),
        ("integer[]", "{1, 2}", "{}"),
    ]

    private func events(
        _ type: String, _ value: String, policy: ConflictPolicy, isAdopted: Bool = false, revisionsKept: Int? = nil
    ) async throws -> (PostgresCluster, TestDevice, TestDevice) {
        let row = "INSERT INTO event (id, value) VALUES (1, '\(value)');"
        let cluster = try await PostgresCluster(
            adopting: """
                CREATE TABLE event (id int PRIMARY KEY, value \(type), note text);
                CREATE TABLE other (id int PRIMARY KEY, n int);
                INSERT INTO other VALUES (1, 0);
                \(isAdopted ? row : "")
                """
        ) {
            $0.policies = ["event": policy]
            guard let revisionsKept else { return }
            $0.limits.revisionsKept = revisionsKept
            $0.limits.compactionStepMin = 1
        }
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        if !isAdopted { try await ben.write(row) }
        try await cluster.converge(ben, anna)
        return (cluster, anna, ben)
    }

    @Test(arguments: spellings, [ConflictPolicy.columns, .lastWriter])
    func `A6: an untouched value in another spelling is no edit beside an unseen edit of that value`(
        spelling: (type: String, value: String, other: String), policy: ConflictPolicy
    ) async throws {
        let (cluster, anna, ben) = try await events(spelling.type, spelling.value, policy: policy)
        try await ben.write("UPDATE event SET value = '\(spelling.other)'")
        try await ben.engine.sync()
        // The app saves the whole row, with its own spelling of the value.
        try await anna.write("UPDATE event SET value = '\(spelling.value)', note = 'edited'")
        try await cluster.converge(anna, ben)
        #expect(try await anna.engine.conflicts().isEmpty)
        #expect(try await ben.rows("SELECT value, note FROM event") == ["\(spelling.other)|edited"])
        await cluster.close()
    }

    @Test(arguments: spellings) func `A6: an untouched value of an adopted row is no edit in another spelling, either`(
        spelling: (type: String, value: String, other: String)
    ) async throws {
        let (cluster, anna, ben) = try await events(spelling.type, spelling.value, policy: .lastWriter, isAdopted: true)
        try await ben.write("UPDATE event SET value = '\(spelling.other)'")
        try await ben.engine.sync()
        try await cluster.psql("UPDATE event SET value = NULL")
        try await anna.write("UPDATE event SET value = '\(spelling.value)', note = 'edited'")
        try await cluster.converge(anna, ben)
        #expect(try await anna.engine.conflicts().isEmpty)
        #expect(try await ben.rows("SELECT value IS NULL, note FROM event") == ["1|edited"])
        await cluster.close()
    }

    @Test func `A6: an untouched value from below the log's horizon is no edit in another spelling, either`()
        async throws
    {
        let spelling = Self.spellings[0]
        let (cluster, anna, ben) = try await events(spelling.0, spelling.1, policy: .lastWriter, revisionsKept: 1)
        for number in 1...3 {
            try await ben.write("UPDATE other SET n = \(number)")
            try await ben.engine.sync()
        }
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows("SELECT min(revision) > 2 FROM tidemark.revision WHERE body <> ''") == ["true"])
        try await ben.write("UPDATE event SET value = '\(spelling.2)'")
        try await ben.engine.sync()
        try await anna.write("UPDATE event SET value = '\(spelling.1)', note = 'edited'")
        try await cluster.converge(anna, ben)
        #expect(try await anna.engine.conflicts().isEmpty)
        #expect(try await ben.rows("SELECT value, note FROM event") == ["\(spelling.2)|edited"])
        await cluster.close()
    }

    /// Compaction removes the entry that replaced the author's value; the next one replaced another author's.
    @Test func `A6: an edit is no untouched value because compaction left an entry that replaced the same value`()
        async throws
    {
        let (cluster, anna, ben) = try await events(
            "jsonb", #"{"v": "A"}"#, policy: .columns, isAdopted: true, revisionsKept: 1)
        for value in ["B", "C"] {
            try await ben.write(#"UPDATE event SET value = '{"v": "\#(value)"}'"#)
            try await ben.engine.sync()
        }
        for number in 1...3 {
            try await ben.write("UPDATE other SET n = \(number)")
            try await ben.engine.sync()
        }
        #expect(try await cluster.rows("SELECT count(*) FROM tidemark.log WHERE tbl = 'event'") == ["1"])
        try await anna.write(#"UPDATE event SET value = '{"v":  "B"}', note = 'edited'"#)
        try await anna.engine.sync()
        #expect(try await anna.engine.conflicts().map { $0.reasons.map(\.columns) } == [[["value"]]])
        #expect(try await cluster.rows("SELECT value ->> 'v' FROM event") == ["C"])
        await cluster.close()
    }

    @Test func `A6: an untouched value in another spelling is no edit when psql has renamed its column`() async throws {
        let spelling = Self.spellings[0]
        let (cluster, anna, ben) = try await events(spelling.0, spelling.1, policy: .lastWriter)
        try await ben.write("UPDATE event SET value = '\(spelling.2)'")
        try await ben.engine.sync()
        try await cluster.psql("ALTER TABLE event RENAME value TO moment")
        try await anna.write("UPDATE event SET value = '\(spelling.1)', note = 'edited'")
        try await cluster.settle([anna, ben])
        #expect(try await anna.engine.conflicts().isEmpty)
        #expect(try await cluster.rows("SELECT moment = '\(spelling.2)', note FROM event") == ["true|edited"])
        await cluster.close()
    }

    @Test(arguments: spellings) func `two devices that write one value in two spellings have no conflict`(
        spelling: (type: String, value: String, other: String)
    ) async throws {
        let (cluster, anna, ben) = try await events(spelling.type, spelling.other, policy: .columns)
        try await cluster.psql("UPDATE event SET value = '\(spelling.value)'")
        try await ben.engine.sync()
        try await anna.write("UPDATE event SET value = '\(spelling.value)', note = 'edited'")
        try await cluster.converge(anna, ben)
        #expect(try await anna.engine.conflicts().isEmpty)
        await cluster.close()
    }

    @Test(arguments: spellings) func `A6: an edit in another spelling is a conflict with an unseen edit of that value`(
        spelling: (type: String, value: String, other: String)
    ) async throws {
        let (cluster, anna, ben) = try await events(spelling.type, spelling.other, policy: .columns)
        try await cluster.psql("UPDATE event SET value = NULL")
        try await ben.engine.sync()
        try await anna.write("UPDATE event SET value = '\(spelling.value)'")
        try await cluster.settle([anna, ben])
        #expect(try await anna.engine.conflicts().map(\.reasons.first?.rule) == ["changed"])
        await cluster.close()
    }

    @Test func `A6: an author's own later edit counts as the value that was not touched`() async throws {
        let (cluster, anna, ben) = try await events("timestamptz", "2026-11-24 06:00:00+00", policy: .columns)
        try await anna.write("UPDATE event SET value = '2026-12-24 06:00:00+00'")
        anna.transport.faults.add(.answerLost)
        await #expect(throws: (any Error).self) { try await anna.engine.sync() }
        try await cluster.psql("UPDATE event SET value = '2027-01-01 00:00:00+00'")
        try await ben.engine.sync()
        // The first value again, in another spelling: an edit of the author's own value.
        try await anna.write("UPDATE event SET value = '2026-11-24T06:00:00Z'")
        try await cluster.settle([anna, ben])
        #expect(try await anna.engine.conflicts().count == 1)
        #expect(try await ben.rows("SELECT value FROM event") == ["2027-01-01 00:00:00+00"])
        await cluster.close()
    }

    // MARK: Values that have no meaning, or no room

    @Test(arguments: ["86405000000", "'86405000000'", "0", "1.5", "' 7 '"])
    func `rule 9: a bare number in a column of intervals is refused, not read as seconds`(number: String) async throws {
        let cluster = try await PostgresCluster(
            adopting: "CREATE TABLE job (id int PRIMARY KEY, pause interval); INSERT INTO job VALUES (1, '1 day')")
        let anna = try await cluster.device("anna")
        try await anna.write("UPDATE job SET pause = \(number)")
        try await cluster.settle([anna])
        #expect(try await anna.engine.conflicts().map(\.reasons.first?.rule) == ["invalidValue"])
        #expect(try await cluster.rows("SELECT pause FROM job") == ["1 day"])
        try await anna.write("UPDATE job SET pause = '90 minutes'")
        try await cluster.settle([anna])
        #expect(try await anna.rows("SELECT pause FROM job") == ["01:30:00"])
        await cluster.close()
    }

    @Test(arguments: [("smallint", "32768"), ("integer", "4503599627370496"), ("integer", "-2147483649")])
    func `rule 11: an integer beyond its column is refused with the bounds, and the other change sets go on`(
        type: String, value: String
    ) async throws {
        let cluster = try await PostgresCluster(
            adopting: """
                CREATE TABLE item (id int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, size \(type), note text);
                INSERT INTO item (note) VALUES ('a'), ('b')
                """
        )
        let anna = try await cluster.device("anna")
        try await anna.write("UPDATE item SET note = 'before' WHERE id = 2")
        try await anna.write("INSERT INTO item (size, note) VALUES (\(value), 'too large')")
        try await anna.write("UPDATE item SET note = 'after' WHERE id = 1")
        try await cluster.settle([anna])
        let conflicts = try await anna.engine.conflicts()
        #expect(conflicts.count == 1)
        let reason = try #require(conflicts.first?.reasons.first)
        #expect(reason.rule == "invalidValue")
        #expect(reason.columns == ["size"])
        let bound = type == "smallint" ? "32767" : "2147483647"
        #expect(reason.message.contains(value) && reason.message.contains(bound))
        #expect(try await cluster.rows("SELECT note FROM item ORDER BY id") == ["after", "before"])
        await cluster.close()
    }

    @Test func `psql inserts into the tables that a schema made, except where the app chooses the key`() async throws {
        let cluster = try await PostgresCluster(
            schema: """
                CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT);
                CREATE TABLE tag (name TEXT PRIMARY KEY);
                CREATE TABLE seat (row INTEGER, number INTEGER, PRIMARY KEY (row, number));
                CREATE TABLE logo (team_id INTEGER PRIMARY KEY REFERENCES team, image BLOB);
                """
        )
        try await cluster.psql(
            """
            INSERT INTO team (name) VALUES ('a'), ('b');
            INSERT INTO tag VALUES ('x');
            INSERT INTO seat VALUES (1, 2);
            INSERT INTO logo VALUES (1, '')
            """
        )
        let identities = try await cluster.rows(
            "SELECT attrelid::regclass::text FROM pg_attribute WHERE attidentity <> '' AND attrelid::regclass::text !~ 'tidemark'"
        )
        #expect(identities == ["team"])
        let anna = try await cluster.device("anna")
        try await anna.write("INSERT INTO team (name) VALUES ('c')")
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT id, name FROM team ORDER BY id") == ["1|a", "2|b", "3|c"])
        await cluster.close()
    }
}
