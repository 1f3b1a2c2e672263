import Foundation
import GRDB
import Synchronization
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// C6: an app shows at each record whether it is safe on the server, in Swift and in SQL.
@Suite(.timeLimit(.minutes(30))) struct RecordStateTests {
    private static let schema = """
        CREATE TABLE players (id INTEGER PRIMARY KEY, name TEXT UNIQUE, goals INTEGER);
        CREATE TABLE regions (state TEXT, since DATE, number INTEGER NOT NULL, PRIMARY KEY (state, since));
        CREATE TABLE tags (name TEXT PRIMARY KEY COLLATE NOCASE, note TEXT);
        CREATE TABLE photos (id BLOB PRIMARY KEY, title TEXT);
        CREATE TABLE lines (text TEXT);
        CREATE TABLE invoices (number TEXT, key INTEGER, kind TEXT, seq INTEGER, record TEXT,
            PRIMARY KEY (number, key, kind, seq));
        """
    private static let seed = """
        INSERT INTO players VALUES (1, 'Anna', 0), (2, 'Ben', 0), (3, 'Eva', 0);
        INSERT INTO regions VALUES ('NY', '2020-01-01', 1), ('2020-01-01', 'NY', 2);
        INSERT INTO tags VALUES ('it''s "é"', 'a'), ('plain', 'b');
        INSERT INTO photos VALUES (x'0102ff', 'sea'), (x'0a', 'hill');
        INSERT INTO lines VALUES ('one'), ('two');
        INSERT INTO invoices VALUES ('A', 1, 'x', 2, 'r'), ('B', 1, 'x', 2, 'r');
        """

    private struct Player: Codable, FetchableRecord, SyncedRecord {
        static let databaseTableName = "players"
        var id: Int64?
        var name: String
    }

    private static func device(limits: Limits = .standard) async throws -> (cluster: Cluster, anna: TestDevice) {
        let cluster = try Cluster(schema: schema, seed: seed)
        return (cluster, try await cluster.device("anna", limits: limits))
    }

    private static let first = RecordName("players", 1)

    /// The states of all players, as a list of the app shows them.
    private static func list(_ device: TestDevice) async throws -> [String] {
        try await device.rows(
            """
            SELECT players.name, coalesce(state, 'synced')
            FROM players LEFT JOIN tidemark_state_players USING (id) ORDER BY players.id
            """
        )
    }

    // MARK: Each state

    @Test func `C6: a record waits offline, is on its way, and is synced, in Swift and in SQL`() async throws {
        let (_, anna) = try await Self.device()
        #expect(try await anna.engine.state(of: Self.first) == .synced(revision: 1))
        #expect(try await Self.list(anna) == ["Anna|synced", "Ben|synced", "Eva|synced"])
        try await anna.write("UPDATE players SET goals = 1 WHERE id = 1")
        #expect(try await anna.engine.state(of: Self.first) == .waiting(since: nil))
        #expect(try await Self.list(anna) == ["Anna|waiting", "Ben|synced", "Eva|synced"])
        anna.transport.faults.whileInFlight { () async throws in
            #expect(try await anna.engine.state(of: Self.first) == .sending)
            #expect(try await Self.list(anna) == ["Anna|sending", "Ben|synced", "Eva|synced"])
        }
        try await anna.engine.sync()
        #expect(try await anna.engine.state(of: Self.first) == .synced(revision: 2))
        #expect(try await Self.list(anna) == ["Anna|synced", "Ben|synced", "Eva|synced"])
    }

    @Test func `C6: an edit that the engine has looked at waits since then, and a lost request is on its way`()
        async throws
    {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna", clock: { 1_800_000_000_000 })
        try await anna.write("UPDATE players SET goals = 1 WHERE id = 1")
        _ = try await anna.engine.checkRows()
        let time = Date(timeIntervalSince1970: 1_800_000_000)
        #expect(try await anna.engine.state(of: Self.first) == .waiting(since: time))
        #expect(try await anna.rows("SELECT * FROM tidemark_state_players") == ["1|waiting|1800000000||1"])
        anna.transport.faults.add(.requestLost)
        await #expect(throws: TidemarkError.self) { try await anna.engine.sync() }
        #expect(try await anna.engine.state(of: Self.first) == .sending)
    }

    @Test func `C4: an edit during the request waits, although the change before it is on its way`() async throws {
        let (_, anna) = try await Self.device()
        try await anna.write("UPDATE players SET goals = 1 WHERE id = 1")
        try await anna.write("UPDATE players SET goals = 1 WHERE id = 2")
        anna.transport.faults.whileInFlight {
            try await anna.write("UPDATE players SET goals = 2 WHERE id = 1")
            #expect(try await anna.engine.state(of: Self.first) == .waiting(since: nil))
            _ = try await anna.engine.checkRows()
            #expect(try await !anna.engine.state(of: Self.first).isSynced)
            #expect(try await Self.list(anna) == ["Anna|waiting", "Ben|sending", "Eva|synced"])
        }
        try await anna.engine.sync()
        #expect(try await anna.engine.state(of: Self.first).isSynced)
        #expect(try await Self.list(anna) == ["Anna|synced", "Ben|synced", "Eva|synced"])
    }

    @Test func `C6: a refused change shows its oldest conflict, also beside later edits, until somebody decides`()
        async throws
    {
        let (cluster, anna) = try await Self.device()
        let ben = try await cluster.device("ben")
        for name in ["Anja", "Anouk"] {
            try await ben.write("UPDATE players SET name = '\(name)' WHERE id = 1")
            try await ben.engine.sync()
            try await anna.write("UPDATE players SET name = 'Annika' WHERE id = 1")
            try await anna.engine.sync()
        }
        let conflicts = try await anna.engine.conflicts()
        #expect(conflicts.count == 2)
        #expect(try await anna.engine.state(of: Self.first) == .conflict(conflicts[0].id))
        try await anna.write("UPDATE players SET goals = 9 WHERE id = 1")
        #expect(try await anna.engine.state(of: Self.first) == .conflict(conflicts[0].id))
        #expect(
            try await anna.rows("SELECT id, state, conflict FROM tidemark_state_players") == [
                "1|conflict|\(conflicts[0].id)"
            ])
        for conflict in conflicts { try await anna.engine.resolve(conflict.id, with: .accept) }
        #expect(try await !anna.engine.state(of: Self.first).isSynced)
        try await anna.engine.sync()
        #expect(try await anna.engine.state(of: Self.first).isSynced)
    }

    @Test func `C6: a change that no retry can send has failed, with the error, until the cause is gone`() async throws
    {
        let (_, anna) = try await Self.device()
        try await anna.write("UPDATE players SET goals = 1 WHERE id = 1")
        // Other devices' records would not fit the column that the zone does not have.
        try await anna.write("ALTER TABLE regions RENAME COLUMN number TO amount")
        let error = await #expect(throws: TidemarkError.self) { try await anna.engine.sync() }
        let problem = try #require(error)
        #expect(problem.recovery == .permanent)
        #expect(try await anna.engine.state(of: Self.first) == .failed(problem))
        // Other records have nothing to send.
        #expect(try await anna.engine.state(of: RecordName("tags", "plain")).isSynced)
        try await anna.write("ALTER TABLE regions RENAME COLUMN amount TO number")
        try await anna.engine.sync()
        #expect(try await anna.engine.state(of: Self.first).isSynced)
    }

    @Test func `rule 5 of the app's face: nothing is synced before the file has joined its zone`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let database = try DatabaseQueue(path: cluster.folder.appendingPathComponent("app.sqlite").path)
        try await database.write { try $0.execute(sql: Self.schema) }
        let engine = try await SyncEngine(
            database, server: "http://cluster.test", transport: InProcessTransport(to: cluster.store))
        #expect(try await engine.state(of: Self.first) == .waiting(since: nil))
        try await engine.sync()
        #expect(try await engine.state(of: Self.first) == .synced(revision: 1))
    }

    // MARK: Keys

    @Test func `C6: a record keeps its state under its temporary id`() async throws {
        let (_, anna) = try await Self.device(limits: .withoutLending)
        let player = try await anna.database.write { db in
            var player = Player(id: nil, name: "Carla")
            try player.insert(db)
            return player
        }
        #expect(try await anna.engine.state(of: player) == .waiting(since: nil))
        try await anna.engine.sync()
        #expect(try await anna.engine.state(of: player) == .synced(revision: 2))
        let temporary = try #require(player.id)
        let id = try #require(try await anna.engine.permanentID(for: temporary, in: "players"))
        try await anna.write("UPDATE players SET goals = 5 WHERE id = \(id)")
        #expect(try await anna.engine.state(of: player) == .waiting(since: nil))
    }

    @Test(arguments: [false, true]) func `C6: keys of all kinds, and key columns named as a view's own`(isDrained: Bool)
        async throws
    {
        let (_, anna) = try await Self.device()
        try await anna.write(
            """
            UPDATE regions SET number = 3 WHERE state = 'NY';
            UPDATE tags SET note = 'c' WHERE note = 'a';
            UPDATE photos SET title = 'lake' WHERE title = 'sea';
            UPDATE lines SET text = 'three' WHERE text = 'two';
            """
        )
        if isDrained { _ = try await anna.engine.checkRows() }
        let waiting: [RecordName] = [
            RecordName("regions", ["NY", "2020-01-01"]), RecordName("tags", "it's \"é\""),
            RecordName("photos", RecordKey([Data([1, 2, 255])])), RecordName("Lines", 2),
        ]
        for name in waiting { #expect(try await !anna.engine.state(of: name).isSynced, "\(name)") }
        let synced: [RecordName] = [
            RecordName("regions", ["2020-01-01", "NY"]), RecordName("tags", "plain"),
            RecordName("photos", RecordKey([Data([10])])), RecordName("lines", 1),
        ]
        for name in synced { #expect(try await anna.engine.state(of: name).isSynced, "\(name)") }
        let joined = [
            "SELECT number, tidemark_state FROM regions LEFT JOIN tidemark_state_regions USING (state, since) ORDER BY 1 DESC",
            "SELECT note, state FROM tags LEFT JOIN tidemark_state_tags USING (name) ORDER BY note DESC",
            "SELECT text, state FROM lines LEFT JOIN tidemark_state_lines AS view ON view.rowid = lines.rowid",
        ]
        #expect(try await anna.rows(joined[0]) == ["3|waiting", "2|"])
        #expect(try await anna.rows(joined[1]) == ["c|waiting", "b|"])
        #expect(try await anna.rows(joined[2]) == ["one|", "three|waiting"])
        try await anna.engine.sync()
        for name in waiting { #expect(try await anna.engine.state(of: name).isSynced, "\(name)") }
    }

    @Test func `C6: deletions and changed keys wait, too, and unknown tables are refused`() async throws {
        let (_, anna) = try await Self.device()
        try await anna.write("DELETE FROM players WHERE id = 3; UPDATE tags SET name = 'new' WHERE name = 'plain'")
        #expect(try await !anna.engine.state(of: RecordName("players", 3)).isSynced)
        #expect(try await !anna.engine.state(of: RecordName("tags", "plain")).isSynced)
        #expect(try await !anna.engine.state(of: RecordName("tags", "new")).isSynced)
        let error = await #expect(throws: TidemarkError.self) {
            try await anna.engine.state(of: RecordName("clubs", 1))
        }
        #expect(error?.code == .unknownTable)
        let nameless = await #expect(throws: TidemarkError.self) {
            try await anna.engine.state(of: Player(id: nil, name: "Nobody"))
        }
        #expect(nameless?.code == .invalidKey)
        // No record can have these keys, so it would be wrong to call them synced.
        for name in [RecordName("players", "one"), RecordName("tags", 1), RecordName("regions", ["NY", 1, 2])] {
            let error = await #expect(throws: TidemarkError.self) { try await anna.engine.state(of: name) }
            #expect(error?.code == .invalidKey, "\(name)")
        }
    }

    @Test func `C6: key columns named as those of the bookkeeping keep their states, also in a conflict`() async throws
    {
        let (cluster, anna) = try await Self.device()
        let ben = try await cluster.device("ben")
        let list = """
            SELECT number, coalesce(state, 'synced') FROM invoices
            LEFT JOIN tidemark_state_invoices USING (number, key, kind, seq) ORDER BY number
            """
        try await ben.write("UPDATE invoices SET record = 'ben' WHERE number = 'A'")
        try await ben.engine.sync()
        try await anna.write("UPDATE invoices SET record = 'anna' WHERE number = 'A'")
        #expect(try await anna.rows(list) == ["A|waiting", "B|synced"])
        try await anna.engine.sync()
        #expect(try await anna.rows(list) == ["A|conflict", "B|synced"])
        let conflict = try #require(try await anna.engine.conflicts().first)
        let name = RecordName("invoices", ["A", 1, "x", 2])
        #expect(try await anna.engine.state(of: name) == .conflict(conflict.id))
    }

    // MARK: Streams

    @Test func `rule 3 of the app's face: a record's stream begins with its state now and has each other one`()
        async throws
    {
        let (_, anna) = try await Self.device()
        var states = anna.engine.states(of: Self.first).makeAsyncIterator()
        #expect(try await states.next() == .synced(revision: 1))
        try await anna.write("UPDATE players SET goals = 1 WHERE id = 2")
        try await anna.write("UPDATE players SET goals = 1 WHERE id = 1")
        // The edit of the other record is no news of this one.
        #expect(try await states.next() == .waiting(since: nil))
        try await anna.engine.sync()
        var last = try await states.next()
        while last?.isSynced == false { last = try await states.next() }
        #expect(last == .synced(revision: 3))
        var unknown = anna.engine.states(of: RecordName("clubs", 1)).makeAsyncIterator()
        await #expect(throws: TidemarkError.self) { try await unknown.next() }
    }

    @Test func `C6: a list of 200 records learns of another program's commit from one poll of the file`() async throws {
        let (_, anna) = try await Self.device()
        let polls = Mutex(0)
        try await anna.database.writeWithoutTransaction { db in
            db.trace { event in if "\(event)".contains("data_version") { polls.withLock { $0 += 1 } } }
        }
        let (begun, beginnings) = AsyncStream.makeStream(of: Void.self)
        try await withThrowingTaskGroup { group in
            for _ in 0..<200 {
                group.addTask { () async throws in
                    var states = anna.engine.states(of: Self.first).makeAsyncIterator()
                    #expect(try await states.next() == .synced(revision: 1))
                    beginnings.yield()
                    #expect(try await states.next() == .waiting(since: nil))
                }
            }
            var waiting = begun.makeAsyncIterator()
            for _ in 0..<200 { await waiting.next() }
            try await DatabaseQueue(path: anna.path).write {
                try $0.execute(sql: "UPDATE players SET goals = 1 WHERE id = 1")
            }
            try await group.waitForAll()
        }
        try await anna.database.writeWithoutTransaction { $0.trace(options: []) }
        let count = polls.withLock(\.self)
        #expect((1..<200).contains(count), "\(count) polls")
    }

    // MARK: Rules

    @Test func `rule 1 of the app's face: all that the engine writes goes through the app's own connection`()
        async throws
    {
        let (cluster, anna) = try await Self.device()
        let ben = try await cluster.device("ben")
        // It changes with the commits of all other connections.
        let otherCommits = {
            try await anna.database.writeWithoutTransaction { try Int.fetchOne($0, sql: "PRAGMA data_version") }
        }
        let before = try await otherCommits()
        try await ben.write("UPDATE players SET name = 'Anja' WHERE id = 1; INSERT INTO players (name) VALUES ('Dora')")
        try await ben.engine.sync()
        try await anna.write("UPDATE players SET name = 'Annika' WHERE id = 1")
        await #expect(throws: WaitError.self) { try await anna.engine.waitUntilSynced(Self.first) }
        let conflict = try #require(try await anna.engine.conflicts().first)
        try await anna.engine.resolve(conflict.id, with: .retry)
        try await anna.engine.waitUntilSynced()
        _ = try await anna.engine.verify(repairing: true)
        try await cluster.converge(anna, ben)
        #expect(try await otherCommits() == before)
    }

    @Test func `rule 6 of the app's face: others' change of the row arrives, and the waiting edit stays in sight`()
        async throws
    {
        let (cluster, anna) = try await Self.device()
        let ben = try await cluster.device("ben")
        try await ben.write("UPDATE players SET name = 'Anja' WHERE id = 1")
        try await ben.engine.sync()
        // The answer brings Ben's change; the request with the edit is lost.
        anna.transport.faults.add(.none, .requestLost)
        anna.transport.faults.whileInFlight { try await anna.write("UPDATE players SET goals = 9 WHERE id = 1") }
        await #expect(throws: TidemarkError.self) { try await anna.engine.sync() }
        #expect(try await anna.rows("SELECT name, goals FROM players WHERE id = 1") == ["Anja|9"])
        #expect(try await !anna.engine.state(of: Self.first).isSynced)
        // The server refuses it, because Anna had not seen Ben's change. Nothing of it is lost.
        try await anna.engine.sync()
        let conflict = try #require(try await anna.engine.conflicts().first)
        #expect(try await anna.engine.state(of: Self.first) == .conflict(conflict.id))
        #expect(try conflict.records[0].versions(as: Player.self).mine?.values["goals"] == 9.databaseValue)
    }

    // MARK: The views

    @Test func `rule 8 of the app's face: a state is read while another program holds the write lock`() async throws {
        let (_, anna) = try await Self.device()
        try await anna.write("UPDATE players SET goals = 1 WHERE id = 1")
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let other = try DatabaseQueue(path: anna.path, configuration: configuration)
        try await other.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE; UPDATE players SET goals = 7") }
        #expect(try await anna.engine.state(of: Self.first) == .waiting(since: nil))
        #expect(try await anna.engine.state(of: RecordName("players", 2)) == .synced(revision: 1))
        try await other.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
    }

    @Test func `C6: a join with a view looks up each row, and one record is found by an index`() async throws {
        let (_, anna) = try await Self.device()
        let plan = { (sql: String) in
            try await anna.database.read { db in
                try Row.fetchAll(db, sql: "EXPLAIN QUERY PLAN \(sql)").map { $0["detail"] as String }
            }
        }
        for (table, columns) in [("players", "id"), ("tags", "name"), ("regions", "state, since")] {
            let lines = try await plan(
                "SELECT * FROM \(table) LEFT JOIN tidemark_state_\(table) AS s USING (\(columns))")
            #expect(lines.contains { $0.hasPrefix("SEARCH s USING AUTOMATIC") }, "\(lines)")
        }
        let lines = try await plan("SELECT state FROM tidemark_state_players WHERE tidemark_key = '1'")
        #expect(lines.contains { $0.contains("tidemark_outbox USING") && $0.contains("tbl=? AND key=?") }, "\(lines)")
    }

    @Test func `C6: the views follow migrations, and break no statement of the app`() async throws {
        let (_, anna) = try await Self.device()
        let views = "SELECT name FROM sqlite_master WHERE type = 'view' ORDER BY name"
        let all = ["invoices", "lines", "photos", "players", "regions", "tags"].map { "tidemark_state_\($0)" }
        #expect(try await anna.rows(views) == all)
        try await anna.write(
            """
            UPDATE tags SET note = 'c' WHERE name = 'plain';
            ALTER TABLE players RENAME TO former;
            ALTER TABLE former RENAME TO players;
            ALTER TABLE tags RENAME COLUMN note TO remark;
            ALTER TABLE players ADD COLUMN club TEXT;
            INSERT INTO lines VALUES ('new');
            DROP TABLE lines;
            """
        )
        #expect(try await !anna.engine.state(of: RecordName("tags", "plain")).isSynced)
        let again = try await SyncEngine(
            anna.database, server: "http://cluster.test", transport: anna.transport,
            renames: ["tags.note": "tags.remark"])
        #expect(try await anna.rows(views) == all.filter { $0 != "tidemark_state_lines" })
        #expect(try await !again.state(of: RecordName("tags", "plain")).isSynced)
        try await anna.write("ALTER TABLE players RENAME COLUMN club TO team")
        try await again.sync()
        #expect(try await again.state(of: RecordName("tags", "plain")).isSynced)
    }

    @Test func `C6: a file of an earlier version gets its views when it is opened`() async throws {
        let (_, anna) = try await Self.device()
        try await anna.write("UPDATE players SET goals = 1 WHERE id = 1")
        for table in ["invoices", "lines", "photos", "players", "regions", "tags"] {
            try await anna.write("DROP VIEW tidemark_state_\(table)")
        }
        let again = try await anna.reopened()
        #expect(try await Self.list(again) == ["Anna|waiting", "Ben|synced", "Eva|synced"])
    }

    @Test func `C6: no view refers to a table of the app, so a program may drop and rename all of them`()
        async throws
    {
        let (_, anna) = try await Self.device()
        try anna.writeOutside(
            "DROP TABLE players; ALTER TABLE tags RENAME TO labels; ALTER TABLE labels RENAME COLUMN note TO remark")
        #expect(try await anna.rows("SELECT * FROM tidemark_state_players") == [])
    }
}
