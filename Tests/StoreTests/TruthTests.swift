import StoreTestSupport
import Testing
import TidemarkCore

/// The tree of rows below a refused deletion that its author receives.
@Suite(.serialized) struct TruthTests {
    private static let schema = """
        CREATE TABLE players (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE screens (
            id INTEGER PRIMARY KEY, player_id INTEGER REFERENCES players ON DELETE CASCADE);
        CREATE TABLE instances (
            id INTEGER PRIMARY KEY, screen_id INTEGER REFERENCES screens ON DELETE CASCADE, comment TEXT);
        CREATE TABLE items (
            id INTEGER PRIMARY KEY, instance_id INTEGER REFERENCES instances ON DELETE CASCADE);
        INSERT INTO players VALUES (100, 'Hall 1');
        INSERT INTO screens VALUES (749, 100);
        INSERT INTO instances VALUES (320, 749, ''), (321, 749, '');
        INSERT INTO items VALUES (410, 320), (411, 320), (412, 321), (413, 321);
        """

    /// A zone in which another device has changed instance 320, in the middle of the tree.
    private static func zone(_ store: Store) async throws -> Zone {
        let zone = try await Zone(store, schema)
        _ = try await zone.sync(at: 1, #"{"instances":{"update":[320],"attributes":{"320":{"comment":"kept"}}}}"#)
        return zone
    }

    private static func truth(_ zone: Zone, _ set: String, _ members: String = "") async throws -> [String: [Int]] {
        let answer = try await zone.sync(#"{"maxRevision":1,\#(members)"changeSets":[\#(set)]}"#)
        let verdict = try #require(answer.changeSets.last)
        #expect(verdict.isConflict == true)
        return ["players", "screens", "instances", "items"].reduce(into: [:]) { records, table in
            records[table] = verdict.ids("update", table)
        }
    }

    private static let deletion = #"{"players":{"delete":[100]}}"#
    private static let tree = [
        "players": [100], "screens": [749], "instances": [320, 321], "items": [410, 411, 412, 413],
    ]

    @Test(arguments: Store.all) func `A8: a conflict contains the descendants of the record that caused it`(
        store: Store
    ) async throws { #expect(try await Self.truth(Self.zone(store), Self.deletion) == Self.tree) }

    @Test(arguments: Store.all, ["321", "320"])
    func `A8: a conflict contains the descendants of a record that the refused set updates`(
        store: Store, updated: String
    )
        async throws
    {
        let set = #"{"players":{"delete":[100]},"instances":{"update":[\#(updated)]}}"#
        #expect(try await Self.truth(Self.zone(store), set) == Self.tree)
    }

    @Test(arguments: Store.all)
    func `for a device that keeps its rows, a conflict contains only the set's records and the causes`(store: Store)
        async throws
    {
        let truth = try await Self.truth(Self.zone(store), Self.deletion, #""echo":"ids","#)
        #expect(truth == ["players": [100], "instances": [320]])
    }

    @Test(arguments: Store.all)
    func `a refused deletion of eight thousand children takes eight times the work of a thousand`(store: Store)
        async throws
    {
        func work(_ children: Int) async throws -> Int {
            let zone = try await Zone(
                store,
                """
                CREATE TABLE players (id INTEGER PRIMARY KEY, name TEXT);
                CREATE TABLE screens (id INTEGER PRIMARY KEY, player_id INTEGER REFERENCES players ON DELETE CASCADE);
                CREATE INDEX screens_player ON screens (player_id);
                INSERT INTO players VALUES (100, 'Hall 1');
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(children))
                INSERT INTO screens SELECT i, 100 FROM n;
                """
            )
            _ = try await zone.sync(at: 1, #"{"players":{"update":[100],"attributes":{"100":{"name":"Hall 2"}}}}"#)
            return try await zone.steps {
                let answer = try await zone.sync(#"{"maxRevision":1,"changeSets":[\#(Self.deletion)]}"#)
                #expect(answer.changeSets.last?.isConflict == true)
                #expect(answer.changeSets.last?.ids("update", "screens")?.count == children)
            }
        }
        let small = try await work(1_000)
        let large = try await work(8_000)
        #expect(large < 12 * small, "\(small), \(large)")
    }

    @Test func `on PostgreSQL no plan of a refused cascade compares each record with a whole table`() async throws {
        let zone = try await Zone(
            .postgres,
            """
            CREATE TABLE players (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE screens (id INTEGER PRIMARY KEY, player_id INTEGER REFERENCES players ON DELETE CASCADE);
            CREATE INDEX screens_player ON screens (player_id);
            INSERT INTO players VALUES (100, 'Hall 1');
            INSERT INTO screens VALUES (1, 100), (2, 100);
            """
        )
        // The plans are made while the tables are small, and outlive that.
        _ = try await zone.sync(at: 1, #"{"screens":{"create":[-1],"attributes":{"-1":{"player_id":100}}}}"#)
        let answer = try await zone.sync(#"{"maxRevision":1,"changeSets":[\#(Self.deletion)]}"#)
        #expect(answer.changeSets.last?.isConflict == true)
        let plans = try await zone.plans()
        #expect(plans.count > 10)
        for plan in plans { #expect(!plan.contains("Materialize") && !plan.contains(#""Hash Join""#), "\(plan)") }
    }
}
