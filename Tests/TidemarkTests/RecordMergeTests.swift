import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// An app merges records of its own types.
@Suite(.timeLimit(.minutes(30))) struct RecordMergeTests {
    private static let schema =
        "CREATE TABLE players (id INTEGER PRIMARY KEY, name TEXT NOT NULL, goals INTEGER, note TEXT)"
    private static let seed = "INSERT INTO players VALUES (1, 'Anna', 0, 'base')"

    private struct Player: Codable, Hashable, FetchableRecord, SyncedRecord {
        static let databaseTableName = "players"
        var id: Int64?
        var name: String
        var goals: Int?
        var note: String?

        static let name = RecordColumn<Player, String>("name")
        static let goals = RecordColumn<Player, Int>("goals")
        static let note = RecordColumn<Player, String>("note")
    }

    /// A type that does not fit the rows: goals are NULL in them.
    private struct StrictPlayer: Codable, FetchableRecord, TableRecord {
        static let databaseTableName = "players"
        var id: Int64
        var team: String
    }

    private static func devices(_ merges: [any RecordMerging]) async throws
        -> (cluster: Cluster, anna: TestDevice, ben: TestDevice)
    {
        let cluster = try Cluster(schema: schema, seed: seed)
        return (cluster, try await cluster.device("anna"), try await cluster.device("ben", merges: merges))
    }

    /// Anna writes first, and Ben's change of the same record is refused and merged.
    private static func players(after anna: String, _ ben: String, merge: any RecordMerging) async throws -> (
        rows: [String], conflicts: Int
    ) {
        let (cluster, first, second) = try await devices([merge])
        try await first.write(anna)
        try await first.engine.sync()
        try await second.write(ben)
        try await second.engine.sync()
        try await cluster.converge(first, second)
        return (try await first.rows("SELECT * FROM players"), try await second.engine.conflicts().count)
    }

    @Test func `a merge sees the record before, the changed columns and the server's record, and absent columns stay`()
        async throws
    {
        let merge = RecordMerge<Player> { base, mine, theirs in
            #expect(base == Player(id: 1, name: "Anna", goals: 0, note: "base"))
            #expect(mine == Partial(values: ["name": "Annika".databaseValue, "goals": 3.databaseValue]))
            #expect(theirs == Player(id: 1, name: "Anja", goals: 0, note: "theirs"))
            var merged = mine
            merged[Player.name] = .present("\(theirs.name) or Annika")
            return merged
        }
        let outcome = try await Self.players(
            after: "UPDATE players SET name = 'Anja', note = 'theirs'", "UPDATE players SET name = 'Annika', goals = 3",
            merge: merge)
        #expect(outcome.rows == ["1|Anja or Annika|3|theirs"])
        #expect(outcome.conflicts == 0)
    }

    @Test func `without an outcome, a person decides`() async throws {
        let merge = RecordMerge<Player> { _, _, _ in nil }
        let outcome = try await Self.players(
            after: "UPDATE players SET name = 'Anja'", "UPDATE players SET name = 'Annika'", merge: merge)
        #expect(outcome.rows == ["1|Anja|0|base"])
        #expect(outcome.conflicts == 1)
    }

    @Test func `a record that the app's type cannot read is left to a person`() async throws {
        let merge = RecordMerge<StrictPlayer> { _, mine, _ in
            Issue.record("the merge was called")
            return mine
        }
        let outcome = try await Self.players(
            after: "UPDATE players SET name = 'Anja'", "UPDATE players SET name = 'Annika'", merge: merge)
        #expect(outcome.conflicts == 1)
    }

    @Test func `two merges of one table are refused before any effect`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let database = try DatabaseQueue()
        try await database.write { try $0.execute(sql: Self.schema) }
        let merge = RecordMerge<Player> { _, mine, _ in mine }
        let error = await #expect(throws: TidemarkError.self) {
            _ = try await SyncEngine(
                database, server: "http://cluster.test", transport: InProcessTransport(to: cluster.store),
                merges: [merge, TableMerge("players") { _ in nil }])
        }
        #expect(error?.code == .invalidArgument)
        #expect(try await database.read { try !$0.tableExists("tidemark_device") })
    }
}
