import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// A11: an app shows the versions of a refused record as values of its own types.
@Suite(.timeLimit(.minutes(30))) struct ConflictValueTests {
    private static let schema = """
        CREATE TABLE players (id INTEGER PRIMARY KEY, name TEXT, goals INTEGER NOT NULL, weight REAL, photo BLOB);
        CREATE TABLE cities (country TEXT, code INTEGER, "a, {b}: é" TEXT, revision TEXT, PRIMARY KEY (country, code));
        """
    private static let seed = """
        INSERT INTO players VALUES (1, 'Anna', 0, 60.0, x'00ff'), (2, 'Ben', 1, NULL, NULL);
        INSERT INTO cities VALUES ('DE', 1, 'Berlin', NULL);
        """

    private struct Player: Codable, Hashable, FetchableRecord, SyncedRecord {
        static let databaseTableName = "players"
        var id: Int64?
        var name: String?
        var goals: Int?
        var weight: Double?
        var photo: Data?

        static let name = RecordColumn<Player, String>("name")
        static let goals = RecordColumn<Player, Int>("goals")
        static let photo = RecordColumn<Player, Data>("photo")
    }

    private struct City: Codable, Hashable, FetchableRecord, TableRecord {
        static let databaseTableName = "cities"
        static let text = RecordColumn<City, String>("a, {b}: é")
        static let revision = RecordColumn<City, String>("revision")
        var country: String
        var code: Int
    }

    private static func pair() async throws -> (cluster: Cluster, anna: TestDevice, ben: TestDevice) {
        let cluster = try Cluster(schema: schema, seed: seed, policies: ["players.goals": .add])
        return (cluster, try await cluster.device("anna"), try await cluster.device("ben"))
    }

    /// The only conflict, after both have written and Anna was first.
    private static func conflict(anna sql: String, ben other: String) async throws -> Conflict {
        let (_, anna, ben) = try await pair()
        try await anna.write(sql)
        try await anna.engine.sync()
        try await ben.write(other)
        try await ben.engine.sync()
        let conflicts = try await ben.engine.conflicts()
        #expect(conflicts.count == 1)
        return try #require(conflicts.first)
    }

    @Test func `A11: a refused update has the record before it, its columns and the server's record as values`()
        async throws
    {
        let conflict = try await Self.conflict(
            anna: "UPDATE players SET name = 'Anja' WHERE id = 1",
            ben: "UPDATE players SET name = 'Annika', photo = x'' WHERE id = 1")
        let record = try #require(conflict.records.first)
        #expect(record.name == RecordName("players", 1))
        let versions = try record.versions(as: Player.self)
        let base = Player(id: 1, name: "Anna", goals: 0, weight: 60, photo: Data([0, 255]))
        #expect(try versions.base?.record() == base)
        #expect(versions.mine?[Player.name] == .present("Annika"))
        #expect(versions.mine?[Player.photo] == .present(Data()))
        #expect(versions.mine?[Player.goals] == .absent)
        var theirs = base
        theirs.name = "Anja"
        #expect(try versions.theirs?.record() == theirs)
        // What a form shows: the server's record with this device's columns on top.
        let shown = try #require(versions.theirs).merging(try #require(versions.mine), overriding: true)
        #expect(try shown.record().name == "Annika")
    }

    @Test func `A11: a refused deletion has no columns, and a record that the server lacks has no version there`()
        async throws
    {
        let deletion = try await Self.conflict(
            anna: "UPDATE players SET name = 'Bo' WHERE id = 2", ben: "DELETE FROM players WHERE id = 2"
        ).records[0].versions(as: Player.self)
        #expect(deletion.mine == nil)
        #expect(try deletion.base?.record().name == "Ben")
        #expect(try deletion.theirs?.record().name == "Bo")
        let update = try await Self.conflict(
            anna: "DELETE FROM players WHERE id = 2", ben: "UPDATE players SET name = NULL WHERE id = 2"
        ).records[0].versions(as: Player.self)
        #expect(update.mine?[Player.name] == .present(nil))
        #expect(update.theirs == nil)
    }

    @Test func `A11: what a change set adds is a number of its own, not a value`() async throws {
        let versions = try await Self.conflict(
            anna: "UPDATE players SET name = 'Anja' WHERE id = 1",
            ben: "UPDATE players SET name = 'Annika', goals = goals + 2 WHERE id = 1"
        ).records[0].versions(as: Player.self)
        #expect(versions.added == ["goals": 2])
        #expect(versions.mine?[Player.goals] == .absent)
    }

    @Test func `A11: keys of several columns and hard names of columns are read, and a created record has no base`()
        async throws
    {
        let create = try await Self.conflict(
            anna: "INSERT INTO cities VALUES ('FR', 7, 'Lyon', 'r')",
            ben: "INSERT INTO cities VALUES ('FR', 7, 'a, \"b\" \\ {é}', NULL)"
        ).records[0]
        #expect(create.name == RecordName("cities", ["FR", 7]))
        let versions = try create.versions(as: City.self)
        #expect(versions.base == nil)
        #expect(versions.mine?[City.text] == .present("a, \"b\" \\ {é}"))
        #expect(versions.theirs?[City.text] == .present("Lyon"))
        #expect(versions.theirs?[City.revision] == .present("r"))
        #expect(try versions.theirs?.record() == City(country: "FR", code: 7))
    }

    @Test
    func `rule 3 of the app's face: the stream begins with the parked conflicts, and has each change of the list`()
        async throws
    {
        let (_, anna, ben) = try await Self.pair()
        try await anna.write("UPDATE players SET name = 'Anja'")
        try await anna.engine.sync()
        var lists = ben.engine.openConflicts.makeAsyncIterator()
        #expect(await lists.next() == [])
        try await ben.write("UPDATE players SET name = 'Annika' WHERE id = 1")
        try await ben.engine.sync()
        let first = try #require(await lists.next()?.first)
        try await ben.write("UPDATE cities SET code = 2")
        var late = ben.engine.openConflicts.makeAsyncIterator()
        #expect(await late.next()?.map(\.id) == [first.id])
        try await ben.engine.resolve(first.id, with: .accept)
        // The edit of another table is no change of the list.
        #expect(await lists.next() == [])
    }
}
