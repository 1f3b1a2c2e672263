import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Rule 1: a person decides about a conflict long after the device parked it, and others have written meanwhile.
@Suite struct SeenConflictTests {
    private static let schema = """
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT, city TEXT);
        CREATE TABLE player (id INTEGER PRIMARY KEY,
            team_id INTEGER REFERENCES team ON DELETE CASCADE, name TEXT,
            coach_id INTEGER REFERENCES player ON DELETE SET NULL);
        CREATE INDEX player_team ON player (team_id);
        CREATE TABLE setting (k TEXT PRIMARY KEY NOT NULL, v TEXT, w TEXT, n INTEGER NOT NULL DEFAULT 7);
        """
    private static let seed = """
        INSERT INTO team VALUES (1, 'Kiel', 'Kiel'), (2, 'Hamburg', 'Hamburg');
        INSERT INTO player (id, team_id, name) VALUES (1, 2, 'Anna');
        """

    /// Anna did `first` and synced; Ben did `second` unaware, which was parked; then Anna did `later`.
    private static func aged(
        _ first: String, _ second: String, later: String = "", policies: [String: ConflictPolicy] = [:]
    ) async throws -> (cluster: Cluster, anna: TestDevice, ben: TestDevice, conflict: Conflict) {
        let cluster = try Cluster(schema: schema, seed: seed, policies: policies)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        // Both get ids of their own first.
        try await cluster.converge(anna, ben)
        try await anna.write(first)
        try await ben.write(second)
        try await anna.engine.sync()
        try await ben.engine.sync()
        let conflict = try #require(try await ben.engine.conflicts().first)
        if !later.isEmpty { try await anna.write(later) }
        try await cluster.converge(anna, ben)
        return (cluster, anna, ben, conflict)
    }

    private static func code(_ work: () async throws -> Void) async throws -> ErrorCode? {
        do {
            try await work()
            return nil
        } catch let error as TidemarkError { return error.code }
    }

    @Test func `a deletion of two spellings of é that a record prevents is one conflict about two records`()
        async throws
    {
        let cluster = try Cluster(
            schema: """
                CREATE TABLE tag (name TEXT PRIMARY KEY NOT NULL);
                CREATE TABLE note (id INTEGER PRIMARY KEY, tag TEXT REFERENCES tag);
                CREATE INDEX note_tag ON note (tag);
                """, seed: "INSERT INTO tag VALUES ('\u{e9}'), ('e\u{301}')")
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await cluster.converge(anna, ben)
        try await anna.write("INSERT INTO note (tag) VALUES ('e\u{301}')")
        try await ben.write("DELETE FROM tag")
        try await anna.engine.sync()
        try await ben.engine.sync()
        let conflict = try #require(try await ben.engine.conflicts().first)
        #expect(conflict.records.count == 2)
        #expect(conflict.referrers.map(\.parentKey.utf8.count) == ["\"e\u{301}\"".utf8.count])
    }

    // MARK: Records that change again

    @Test func `A6, rule 1: a retry does not overwrite an edit that came after the refusal and that nobody was shown`()
        async throws
    {
        let (cluster, anna, ben, conflict) = try await Self.aged(
            "UPDATE team SET name = 'theirs' WHERE id = 1", "UPDATE team SET name = 'mine' WHERE id = 1",
            later: "UPDATE team SET name = 'LATER' WHERE id = 1")
        #expect(conflict.records.first?.theirs?.contains("theirs") == true && !conflict.hasChanged)
        // Neither by its number nor as it was shown.
        #expect(try await Self.code { try await ben.engine.resolve("1", with: .retry) } == .preconditionFailed)
        #expect(try await Self.code { try await ben.engine.resolve(conflict, with: .retry) } == .preconditionFailed)
        let merged = MergedRecord(table: "team", key: "1", columns: ["name": "both".databaseValue])
        #expect(
            try await Self.code { try await ben.engine.resolve(conflict, with: .merge([merged])) }
                == .preconditionFailed)
        #expect(try await ben.rows("SELECT name FROM team WHERE id = 1") == ["LATER"])
        // The conflict shows the record of now, and a decision about that is carried out.
        let now = try #require(try await ben.engine.conflicts().first)
        #expect(now.hasChanged && now.seen != conflict.seen)
        #expect(now.records.first?.theirs?.contains("LATER") == true)
        try await ben.engine.resolve(now, with: .retry)
        try await cluster.converge(ben, anna)
        #expect(try await cluster.rows("SELECT name FROM team WHERE id = 1") == ["mine"])
    }

    @Test func `rule 1: a record that was deleted after the refusal is not brought back unasked`() async throws {
        let (cluster, anna, ben, conflict) = try await Self.aged(
            "UPDATE team SET name = 'theirs' WHERE id = 1", "UPDATE team SET name = 'mine' WHERE id = 1",
            later: "DELETE FROM team WHERE id = 1")
        #expect(try await Self.code { try await ben.engine.resolve(conflict, with: .retry) } == .preconditionFailed)
        let now = try #require(try await ben.engine.conflicts().first)
        #expect(now.records.map(\.theirs) == [nil])
        try await ben.engine.resolve(now, with: .retry)
        try await cluster.converge(ben, anna)
        #expect(try await cluster.rows("SELECT name, city FROM team WHERE id <> 2") == ["mine|Kiel"])
    }

    @Test func `a later edit of another column is no obstacle where columns are merged, and is one elsewhere`()
        async throws
    {
        for policies in [["team": ConflictPolicy.columns], [:]] {
            let (cluster, anna, ben, conflict) = try await Self.aged(
                "UPDATE team SET name = 'theirs' WHERE id = 1", "UPDATE team SET name = 'mine' WHERE id = 1",
                later: "UPDATE team SET city = 'Plön' WHERE id = 1", policies: policies)
            let code = try await Self.code { try await ben.engine.resolve(conflict, with: .retry) }
            #expect(code == (policies.isEmpty ? .preconditionFailed : nil))
            guard code == nil else { continue }
            try await cluster.converge(ben, anna)
            #expect(try await cluster.rows("SELECT name, city FROM team WHERE id = 1") == ["mine|Plön"])
        }
    }

    @Test func `a person who has seen two conflicts that build on each other decides about both without another look`()
        async throws
    {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("UPDATE team SET name = 'theirs' WHERE id = 1")
        try await anna.engine.sync()
        try await ben.write("UPDATE team SET name = 'mine' WHERE id = 1")
        try await ben.write("UPDATE team SET city = 'Altona' WHERE id = 2")
        try await ben.write("UPDATE team SET name = 'mine, again' WHERE id = 1")
        try await ben.engine.sync()
        let shown = try await ben.engine.conflicts()
        try #require(shown.count == 2)
        try await ben.engine.resolve(shown[0], with: .retry)
        let rest = try await ben.engine.conflicts()
        #expect(rest.map(\.seen) == [shown[1].seen])
        try await ben.engine.resolve(shown[1], with: .retry)
        try await cluster.converge(ben, anna)
        #expect(try await cluster.rows("SELECT name FROM team WHERE id = 1") == ["mine, again"])
    }

    @Test func `edits of one record that were refused together are retried with a sync between them`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("UPDATE team SET name = 'theirs' WHERE id = 1")
        try await anna.engine.sync()
        try await ben.write("UPDATE team SET name = 'mine' WHERE id = 1; INSERT INTO team (name) VALUES ('new')")
        try await ben.write("UPDATE team SET city = 'Altona' WHERE id = 2")
        try await ben.write("UPDATE team SET name = 'mine, again' WHERE id = 1")
        try await ben.write("UPDATE team SET city = 'Eutin' WHERE name = 'new'")
        try await ben.engine.sync()
        let conflicts = try await ben.engine.conflicts()
        #expect(conflicts.count == 3)
        for conflict in conflicts {
            try await ben.engine.resolve(conflict.id, with: .retry)
            try await cluster.converge(ben, anna)
        }
        #expect(
            try await cluster.rows("SELECT name, city FROM team WHERE id <> 2") == ["mine, again|Kiel", "new|Eutin"])
    }

    @Test func `a decision about conflicts that build on each other is whole, or has no effect`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await cluster.converge(anna, ben)
        try await anna.write("UPDATE team SET name = 'theirs' WHERE id = 1")
        try await anna.write("INSERT INTO team (id, name) VALUES (77, 'theirs')")
        try await anna.engine.sync()
        try await ben.write("UPDATE team SET name = 'mine' WHERE id = 1")
        try await ben.write("UPDATE team SET city = 'Altona' WHERE id = 2")
        try await ben.write(
            "UPDATE team SET city = 'Plön' WHERE id = 1; INSERT INTO team (id, name) VALUES (77, 'mine')")
        try await ben.engine.sync()
        let parked = try await ben.engine.conflicts()
        try #require(parked.count == 2 && parked[1].after == [parked[0].id], "\(parked)")
        let retryAll = { (takenIDs: TakenIDs) in
            try await ben.engine.resolve("1", with: .retry, seen: .asParked, takenIDs: takenIDs) { _, _ in .retry }
        }
        // The second one meets another record's number.
        #expect(try await Self.code { _ = try await retryAll(.refuse) } == .invalidArgument)
        #expect(try await ben.engine.conflicts().map(\.id) == parked.map(\.id))
        #expect(try await ben.rows("SELECT name FROM team WHERE id = 1") == ["theirs"])
        let chain = try await retryAll(.asNew)
        #expect(chain.dependents.map(\.conflict.id) == [parked[1].id] && chain.open.isEmpty)
        try await cluster.converge(ben, anna)
        #expect(
            try await cluster.rows("SELECT name, city FROM team WHERE id <> 2 ORDER BY id = 1, id = 77") == [
                "mine|", "theirs|", "mine|Plön",
            ]
        )
    }

    @Test func `rule 1: an edit of bytes alone, an accent as a character of its own, is a later edit, too`()
        async throws
    {
        let (_, _, ben, conflict) = try await Self.aged(
            "UPDATE team SET name = 'Caf\u{e9}' WHERE id = 1", "UPDATE team SET name = 'mine' WHERE id = 1",
            later: "UPDATE team SET name = 'Cafe\u{301}' WHERE id = 1")
        #expect(try await Self.code { try await ben.engine.resolve(conflict, with: .retry) } == .preconditionFailed)
        #expect(try await ben.engine.conflicts().first?.hasChanged == true)
    }

    // MARK: Later edits on this device

    @Test(arguments: [false, true])
    func `rule 1: months later, a retry does not replace what its own device has written since`(isSent: Bool)
        async throws
    {
        let (cluster, anna, ben, conflict) = try await Self.aged(
            "UPDATE team SET name = 'theirs' WHERE id = 1", "UPDATE team SET name = 'mine' WHERE id = 1")
        try await ben.write("UPDATE team SET name = 'newer' WHERE id = 1")
        if isSent { try await cluster.converge(ben, anna) }
        #expect(try await Self.code { try await ben.engine.resolve("1", with: .retry) } == .preconditionFailed)
        #expect(try await Self.code { try await ben.engine.resolve(conflict, with: .retry) } == .preconditionFailed)
        #expect(try await ben.rows("SELECT name FROM team WHERE id = 1") == ["newer"])
        let now = try #require(try await ben.engine.conflicts().first)
        let record = try #require(now.records.first)
        #expect(now.hasChanged && now.seen != conflict.seen)
        #expect((isSent ? record.theirs : record.here)?.contains("newer") == true)
        #expect(isSent ? record.here == nil : record.theirs == conflict.records.first?.theirs)
        try await ben.engine.resolve(now, with: .retry)
        try await cluster.converge(ben, anna)
        #expect(try await cluster.rows("SELECT name FROM team WHERE id = 1") == ["mine"])
    }

    @Test(arguments: [false, true])
    func `a later edit of this device in another column stays, and needs no look`(isSent: Bool) async throws {
        let (cluster, anna, ben, conflict) = try await Self.aged(
            "UPDATE team SET name = 'theirs' WHERE id = 1", "UPDATE team SET name = 'mine' WHERE id = 1")
        try await ben.write("UPDATE team SET city = 'Plön' WHERE id = 1")
        if isSent { try await cluster.converge(ben, anna) }
        try await ben.engine.resolve(conflict.id, with: .retry)
        try await cluster.converge(ben, anna)
        #expect(try await cluster.rows("SELECT name, city FROM team WHERE id = 1") == ["mine|Plön"])
    }

    @Test(arguments: [false, true])
    func `a parked deletion does not take a record that its own device has edited since`(isSent: Bool) async throws {
        let (cluster, anna, ben, conflict) = try await Self.aged(
            "UPDATE team SET name = 'theirs' WHERE id = 1", "DELETE FROM team WHERE id = 1")
        try await ben.write("UPDATE team SET city = 'Plön' WHERE id = 1")
        if isSent { try await cluster.converge(ben, anna) }
        #expect(try await Self.code { try await ben.engine.resolve(conflict, with: .retry) } == .preconditionFailed)
        try await ben.engine.resolve(try #require(try await ben.engine.conflicts().first), with: .retry)
        try await cluster.converge(ben, anna)
        #expect(try await cluster.rows("SELECT name FROM team WHERE id = 1").isEmpty)
    }

    @Test(arguments: [false, true])
    func `a parked edit does not bring back a record that its own device has deleted since`(isSent: Bool) async throws {
        let (cluster, anna, ben, conflict) = try await Self.aged(
            "UPDATE team SET name = 'theirs' WHERE id = 1", "UPDATE team SET name = 'mine' WHERE id = 1")
        try await ben.write("DELETE FROM team WHERE id = 1")
        if isSent { try await cluster.converge(ben, anna) }
        #expect(try await Self.code { try await ben.engine.resolve(conflict, with: .retry) } == .preconditionFailed)
        let record = try #require(try await ben.engine.conflicts().first?.records.first)
        #expect(isSent ? record.theirs == nil && record.here == nil : record.here == "null")
        #expect(try await ben.rows("SELECT name FROM team WHERE id = 1").isEmpty)
    }

    @Test func `an overruled value is not restored over a later one that its author has not seen`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed, policies: ["team": .lastWriter])
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("UPDATE team SET name = 'of anna' WHERE id = 1")
        try await ben.write("UPDATE team SET name = 'of ben' WHERE id = 1")
        try await cluster.converge(anna, ben)
        let overruled = try #require(try await anna.engine.conflicts().first)
        #expect(overruled.kind == .overruled && overruled.records.first?.theirs == #"{"name":"of ben"}"#)
        try await ben.write("UPDATE team SET name = 'later' WHERE id = 1")
        try await cluster.converge(ben, anna)
        #expect(try await Self.code { try await anna.engine.resolve(overruled, with: .retry) } == .preconditionFailed)
        let now = try #require(try await anna.engine.conflicts().first)
        #expect(now.records.first?.theirs == #"{"name":"later"}"#)
        try await anna.engine.resolve(now, with: .retry)
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows("SELECT name FROM team WHERE id = 1") == ["of anna"])
    }

    // MARK: New records

    @Test func `rule 1: a retried creation leaves alone the columns that its author never set`() async throws {
        let (cluster, anna, ben, conflict) = try await Self.aged(
            "INSERT INTO setting (k, v, n) VALUES ('k', 'of anna', 9)",
            "INSERT INTO setting (k, w) VALUES ('k', 'of ben')")
        try await ben.engine.resolve(conflict, with: .retry)
        try await cluster.converge(ben, anna)
        #expect(try await cluster.rows("SELECT * FROM setting") == ["k|of anna|of ben|9"])
    }

    private static let numbers = (
        first: "INSERT INTO team (id, name, city) VALUES (5, 'of anna', 'Kiel')",
        second: """
        INSERT INTO team (id, name) VALUES (5, 'of ben');
        INSERT INTO player (team_id, name) VALUES (5, 'Boris')
        """
    )
    private static let teams = "SELECT name, city, (SELECT count(*) FROM player WHERE team_id = team.id) FROM team"

    @Test func `two programs number a record 5: the retry asks, and keeps both under another number`() async throws {
        let (cluster, anna, ben, conflict) = try await Self.aged(Self.numbers.first, Self.numbers.second)
        let refusal = await #expect(throws: TidemarkError.self) {
            try await ben.engine.resolve(conflict, with: .retry)
        }
        #expect(refusal?.code == .invalidArgument && refusal?.message.contains("team 5") == true)
        #expect(refusal?.fix.contains("--as-new") == true && refusal?.fix.contains("--replace") == true)
        try await ben.engine.resolve(conflict, with: .retry, takenIDs: .asNew)
        try await cluster.converge(ben, anna)
        let own = try await cluster.rows("\(Self.teams) WHERE name LIKE 'of %' ORDER BY name")
        #expect(own == ["of anna|Kiel|0", "of ben||1"])
        #expect(try await cluster.rows("SELECT name FROM team WHERE id = 5") == ["of anna"])
    }

    @Test func `a new record takes the place of another under its number only if a person says so`() async throws {
        let (cluster, anna, ben, conflict) = try await Self.aged(Self.numbers.first, Self.numbers.second)
        try await ben.engine.resolve(conflict, with: .retry, takenIDs: .replace)
        try await cluster.converge(ben, anna)
        #expect(try await cluster.rows("\(Self.teams) WHERE id = 5") == ["of ben||1"])
    }

    @Test func `a new record with a key of its own cannot be retried as a new one`() async throws {
        let (_, _, ben, conflict) = try await Self.aged(
            "INSERT INTO setting (k, v) VALUES ('size', 'theirs')", "INSERT INTO setting (k, v) VALUES ('size', 'mine')"
        )
        let error = await #expect(throws: TidemarkError.self) {
            try await ben.engine.resolve(conflict, with: .retry, takenIDs: .asNew)
        }
        #expect(error?.code == .invalidArgument && error?.place.key == #""size""#)
        #expect(try await ben.rows("SELECT v FROM setting") == ["theirs"])
        #expect(try await ben.engine.conflicts().count == 1)
    }

    @Test func `a new number is followed in the change sets that wait for the decision`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await cluster.converge(anna, ben)
        try await anna.write("INSERT INTO team (id, name) VALUES (5, 'of anna')")
        try await anna.engine.sync()
        try await ben.write("INSERT INTO team (id, name) VALUES (5, 'of ben')")
        try await ben.write("INSERT INTO player (team_id, name) VALUES (5, 'Boris')")
        try await ben.write("UPDATE team SET city = 'Bonn' WHERE id = 5")
        try await ben.engine.sync()
        var open = try await ben.engine.conflicts()
        #expect(open.count == 3)
        while let next = open.first {
            try await ben.engine.resolve(next, with: .retry, takenIDs: .asNew)
            open = try await ben.engine.conflicts()
        }
        try await cluster.converge(ben, anna)
        #expect(
            try await cluster.rows("\(Self.teams) WHERE name LIKE 'of %' ORDER BY name") == [
                "of anna||0", "of ben|Bonn|1",
            ]
        )
    }

    // MARK: Deletions

    @Test func `rule 1: a retried deletion takes no child along that came after it was refused`() async throws {
        let (cluster, anna, ben, conflict) = try await Self.aged(
            "UPDATE team SET name = 'THW Kiel' WHERE id = 1", "DELETE FROM team WHERE id = 1",
            later:
                "INSERT INTO player (id, team_id, name) VALUES (7, 1, 'Ole'), (8, 2, 'Pia'); UPDATE player SET coach_id = 7 WHERE id = 8"
        )
        #expect(conflict.takenAlong.isEmpty)
        #expect(try await Self.code { try await ben.engine.resolve("1", with: .retry) } == .preconditionFailed)
        let refusal = await #expect(throws: TidemarkError.self) {
            try await ben.engine.resolve(conflict, with: .retry)
        }
        #expect(refusal?.message.contains("delete player 7") == true)
        #expect(refusal?.message.contains("take the reference from player 8") == true)
        let now = try #require(try await ben.engine.conflicts().first)
        #expect(now.hasChanged)
        #expect(now.takenAlong.map { "\($0.table) \($0.key) \($0.isDeleted)" } == ["player 7 true", "player 8 false"])
        // A person who has seen them may say yes.
        try await ben.engine.resolve(now, with: .retry)
        try await cluster.converge(ben, anna)
        #expect(try await cluster.rows("SELECT id, coach_id FROM player ORDER BY id") == ["1|", "8|"])
    }

    @Test func `a child that the refusal of a deletion shows goes along with the retry`() async throws {
        let (cluster, anna, ben, conflict) = try await Self.aged(
            "INSERT INTO player (id, team_id, name) VALUES (7, 1, 'Ole')", "DELETE FROM team WHERE id = 1")
        #expect(conflict.records.contains { $0.table == "player" && $0.key == "7" })
        #expect(!conflict.hasChanged)
        try await ben.engine.resolve("1", with: .retry)
        try await cluster.converge(ben, anna)
        #expect(try await cluster.rows("SELECT id FROM player ORDER BY id") == ["1"])
    }

    // MARK: A damaged file

    @Test(arguments: ["mine", "theirs", "base"])
    func `a damaged byte in one parked record does not hide the other conflicts`(column: String) async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("UPDATE team SET name = 'theirs'")
        try await anna.engine.sync()
        for id in 1...2 { try await ben.write("UPDATE team SET name = 'mine' WHERE id = \(id)") }
        try await ben.engine.sync()
        try ben.writeOutside(
            "UPDATE tidemark_conflict_record SET \(column) = replace(\(column), ':', char(7)) WHERE key = '1'")
        let conflicts = try await ben.engine.conflicts()
        try #require(conflicts.map(\.isDamaged) == [true, false])
        #expect(conflicts.last?.records.first?.mine == #"{"name":"mine"}"#)
        try await ben.engine.resolve(conflicts[1], with: .retry)
        try await ben.engine.resolve(conflicts[0], with: .accept)
        try await cluster.converge(ben, anna)
        #expect(try await cluster.rows("SELECT name FROM team ORDER BY id") == ["theirs", "mine"])
    }
}
