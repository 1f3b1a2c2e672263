import Foundation
import GRDB
import Synchronization
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// B10: an app waits until a record is on the server.
@Suite(.timeLimit(.minutes(30))) struct WaitTests {
    private static let schema = """
        CREATE TABLE teams (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
        CREATE TABLE players (id INTEGER PRIMARY KEY, team_id INTEGER REFERENCES teams, name TEXT,
            goals INTEGER CHECK (goals >= 0));
        CREATE TABLE cities (country TEXT, code INTEGER, name TEXT, PRIMARY KEY (country, code));
        """
    private static let seed = """
        INSERT INTO teams VALUES (1, 'Kiel');
        INSERT INTO players (id, team_id, name, goals) VALUES (1, 1, 'Anna', 0);
        INSERT INTO cities VALUES ('DE', 1, 'Berlin');
        """

    private struct Player: Codable, FetchableRecord, SyncedRecord {
        static let databaseTableName = "players"
        var id: Int64?
        var name: String
    }

    private static func pair(limits: Limits = .standard) async throws
        -> (cluster: Cluster, anna: TestDevice, ben: TestDevice)
    {
        let cluster = try Cluster(schema: schema, seed: seed)
        return (cluster, try await cluster.device("anna", limits: limits), try await cluster.device("ben"))
    }

    // MARK: Unknown records

    @Test func `B10: a wait for a record that is nowhere ends with an error, not with a receipt`() async throws {
        let (_, anna, ben) = try await Self.pair()
        try await anna.engine.sync()
        await #expect {
            _ = try await anna.engine.waitUntilSynced(RecordName("players", 424_242))
        } throws: { error in
            let error = error as? TidemarkError
            return error?.code == .unknownRecord && error?.message.contains("players 424242") == true
        }
        // The server has one that this file does not have yet.
        try await ben.write("INSERT INTO players (id, name) VALUES (77, 'Ben')")
        try await ben.engine.sync()
        #expect(try await anna.engine.waitUntilSynced(RecordName("players", 77)).changeSets == [])
        // It had one whose deletion it has taken from here.
        try await anna.write("DELETE FROM players WHERE id = 77")
        try await anna.engine.sync()
        #expect(try await anna.engine.waitUntilSynced(RecordName("players", 77)).changeSets == [])
    }

    // MARK: Accepted

    @Test func `B10: a wait ends when the server has the record, without the background sync`() async throws {
        let (cluster, anna, _) = try await Self.pair()
        try await anna.write("UPDATE players SET goals = 1 WHERE id = 1")
        let receipt = try await anna.engine.waitUntilSynced(RecordName("players", 1))
        #expect(receipt.zone == "main")
        #expect(receipt.revision == 2)
        #expect(receipt.changeSets.count == 1)
        let zone = try DatabaseQueue(path: cluster.zonePath)
        #expect(try await zone.read { try Int.fetchOne($0, sql: "SELECT goals FROM players") } == 1)
        // A receipt outlives the process.
        let copy = try JSONDecoder().decode(Receipt.self, from: JSONEncoder().encode(receipt))
        #expect(copy == receipt)
    }

    @Test func `B10: a wait is for the record's change sets and those before them, not for later ones`() async throws {
        let (_, anna, _) = try await Self.pair()
        try await anna.write("UPDATE cities SET name = 'Bonn'")
        try await anna.write("UPDATE players SET goals = 1 WHERE id = 1")
        try await anna.write("UPDATE teams SET name = 'THW Kiel'")
        let receipt = try await anna.engine.waitUntilSynced(RecordName("players", 1))
        #expect(receipt.changeSets.count == 2)
        let all = try await anna.engine.waitUntilSynced()
        #expect(all.changeSets == [])
        #expect(try await anna.engine.status().pendingChangeSets == 0)
    }

    @Test func `B10: records of the app, keys of several columns and records without edits can be awaited`()
        async throws
    {
        let (_, anna, _) = try await Self.pair()
        let edited = try await anna.database.write { db in
            var player = try #require(try Player.fetchOne(db, key: 1))
            player.name = "Annika"
            try player.update(db)
            return player
        }
        try await anna.write("UPDATE cities SET name = 'Bonn'")
        #expect(try await anna.engine.waitUntilSynced(edited).changeSets.count == 1)
        #expect(try await anna.engine.waitUntilSynced(RecordName("cities", ["DE", 1])).revision >= 2)
        #expect(try await anna.engine.waitUntilSynced(RecordName("teams", 1)).changeSets == [])
    }

    @Test func `B10: a wait under a temporary id ends when the record has its permanent one`() async throws {
        let (_, anna, _) = try await Self.pair(limits: .withoutLending)
        let player = try await anna.database.write { db in
            var player = Player(id: nil, name: "Eva")
            try player.insert(db)
            return player
        }
        let temporary = try #require(player.id)
        #expect(temporary < 0)
        #expect(try await anna.engine.waitUntilSynced(player).changeSets.count == 1)
        let permanent = try #require(try await anna.engine.permanentID(for: temporary, in: "players"))
        try await anna.write("UPDATE players SET goals = 5 WHERE id = \(permanent)")
        // The name with the former id stays good.
        #expect(try await anna.engine.waitUntilSynced(player).changeSets.count == 1)
    }

    @Test func `rule 2 of the app's face: an edit during the wait is neither blocked nor awaited`() async throws {
        let (_, anna, _) = try await Self.pair()
        try await anna.write("UPDATE players SET goals = 1 WHERE id = 1")
        anna.transport.faults.whileInFlight { try await anna.write("UPDATE players SET goals = 2 WHERE id = 1") }
        let receipt = try await anna.engine.waitUntilSynced(RecordName("players", 1))
        #expect(receipt.changeSets.count == 1)
        try await anna.engine.waitUntilSynced()
        #expect(try await anna.engine.status().pendingChangeSets == 0)
    }

    @Test func `B10: lost messages only lengthen the wait`() async throws {
        let (_, anna, _) = try await Self.pair()
        anna.transport.faults.add(.requestLost, .answerLost)
        try await anna.write("UPDATE players SET goals = 1 WHERE id = 1")
        #expect(try await anna.engine.waitUntilSynced().revision == 2)
    }

    // MARK: Refused

    @Test func `B10: a refusal ends the wait with the conflict, also for a wait that begins later`() async throws {
        let (_, anna, ben) = try await Self.pair()
        try await ben.write("UPDATE players SET name = 'Anja' WHERE id = 1")
        try await ben.engine.sync()
        try await anna.write("UPDATE players SET name = 'Annika' WHERE id = 1")
        let error = await #expect(throws: WaitError.self) {
            try await anna.engine.waitUntilSynced(RecordName("players", 1))
        }
        let conflict = try #require(try await anna.engine.conflicts().first)
        #expect(error == .refused(conflict: conflict.id))
        await #expect(throws: WaitError.refused(conflict: conflict.id)) {
            try await anna.engine.waitUntilSynced(RecordName("players", 1))
        }
        try await anna.engine.resolve(conflict.id, with: .retry)
        #expect(try await anna.engine.waitUntilSynced(RecordName("players", 1)).changeSets.count == 1)
    }

    @Test func `B10: a refused parent takes its new child along, and the wait for the child says so`() async throws {
        let (_, anna, ben) = try await Self.pair()
        try await ben.write("INSERT INTO teams VALUES (2, 'Flensburg')")
        try await ben.engine.sync()
        try await anna.write("INSERT INTO teams VALUES (3, 'Flensburg')")
        try await anna.write("INSERT INTO players (id, team_id, name) VALUES (9, 3, 'Eva')")
        await #expect(throws: WaitError.self) { try await anna.engine.waitUntilSynced(RecordName("players", 9)) }
        // Records that do not depend on it are on the server.
        try await anna.write("UPDATE cities SET name = 'Bonn'")
        #expect(try await anna.engine.waitUntilSynced(RecordName("cities", ["DE", 1])).changeSets.count == 1)
    }

    @Test func `B10: the wait goes on with the change set that a merge function makes of a refused one`()
        async throws
    {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let merge: MergeFunction = { input in ["name": "\(input.mine["name"]!) \(input.theirs["name"]!)".databaseValue]
        }
        let anna = try await cluster.device("anna", merges: [TableMerge("players", merge)])
        let ben = try await cluster.device("ben")
        try await ben.write("UPDATE players SET name = 'Anja' WHERE id = 1")
        try await ben.engine.sync()
        try await anna.write("UPDATE players SET name = 'Annika' WHERE id = 1")
        let receipt = try await anna.engine.waitUntilSynced(RecordName("players", 1))
        #expect(receipt.changeSets.count == 2)
        #expect(receipt.revision == 3)
    }

    // MARK: Not yet

    @Test func `rule 2 of the app's face: the end of the time undoes nothing, and says how much is pending`()
        async throws
    {
        let (_, anna, _) = try await Self.pair()
        anna.transport.faults.add(.requestLost, .requestLost, .requestLost, .requestLost)
        try await anna.write("UPDATE players SET goals = 1 WHERE id = 1")
        await #expect(throws: WaitError.notYet(pending: 1)) {
            try await anna.engine.waitUntilSynced(within: .milliseconds(20))
        }
        #expect(try await anna.rows("SELECT goals FROM players") == ["1"])
        #expect(try await anna.engine.status().pendingChangeSets == 1)
    }

    @Test func `B10: a cancelled wait ends at once, and the change stays`() async throws {
        let (_, anna, _) = try await Self.pair()
        anna.transport.faults.add(.requestLost)
        try await anna.write("UPDATE players SET goals = 1 WHERE id = 1")
        let wait = Task { try await anna.engine.waitUntilSynced() }
        wait.cancel()
        await #expect(throws: CancellationError.self) { try await wait.value }
        #expect(try await anna.engine.status().pendingChangeSets == 1)
        #expect(try await anna.engine.waitUntilSynced().changeSets.count == 1)
    }

    @Test func `B10: an error that no retry can help ends the wait`() async throws {
        let (_, anna, _) = try await Self.pair()
        let denied = Denied(real: anna.transport)
        let engine = try await SyncEngine(anna.database, server: "http://cluster.test", transport: denied)
        try await anna.write("UPDATE players SET goals = 1 WHERE id = 1")
        let error = await #expect(throws: TidemarkError.self) { try await engine.waitUntilSynced() }
        #expect(error?.code == .signInNeeded)
        #expect(try await engine.status().pendingChangeSets == 1)
    }

    @Test func `a table that does not sync, and a record without a key, are refused before any effect`() async throws {
        let (_, anna, _) = try await Self.pair()
        var error = await #expect(throws: TidemarkError.self) {
            try await anna.engine.waitUntilSynced(RecordName("songs", 1))
        }
        #expect(error?.code == .unknownTable)
        error = await #expect(throws: TidemarkError.self) {
            try await anna.engine.waitUntilSynced(Player(id: nil, name: "nobody"))
        }
        #expect(error?.code == .invalidKey)
    }

    // MARK: Several processes

    @Test func `rule 7 of the app's face: a process that was killed in its wait waits again with the same result`()
        async throws
    {
        let (_, anna, _) = try await Self.pair()
        anna.transport.faults.add(.answerLost)
        try await anna.write("UPDATE players SET goals = 1 WHERE id = 1")
        await #expect(throws: TidemarkError.self) { try await anna.engine.sync() }
        // The server has committed, and no process knows it.
        let again = try await anna.reopened()
        #expect(try await again.engine.waitUntilSynced(RecordName("players", 1)).revision == 2)
    }

    @Test func `rule 7 of the app's face: a wait ends when another process has synced the file`() async throws {
        let (_, anna, _) = try await Self.pair()
        let offline = try await SyncEngine(
            anna.database, server: "http://cluster.test", transport: Silent(real: anna.transport))
        try await anna.write("UPDATE players SET goals = 1 WHERE id = 1")
        let wait = Task { try await offline.waitUntilSynced(RecordName("players", 1)) }
        let other = try await anna.reopened(environment: .ignoringLocks)
        try await other.engine.waitUntilSynced()
        #expect(try await wait.value.revision == 2)
    }

    @Test func `rule 5 of the app's face: synced is said only of a committed change`() async throws {
        let (cluster, anna, _) = try await Self.pair()
        let seen = Mutex<[Int64?]>([])
        try await anna.write("UPDATE players SET goals = 1 WHERE id = 1")
        anna.transport.faults.whileInFlight {
            // The server has committed; the device has no verdict yet.
            let error = await #expect(throws: WaitError.self) {
                try await anna.reopened(environment: .ignoringLocks).engine.waitUntilSynced(within: .zero)
            }
            #expect(error == .notYet(pending: 1))
            seen.withLock { $0.append(2) }
        }
        let receipt = try await anna.engine.waitUntilSynced()
        #expect(seen.withLock(\.count) == 1)
        #expect(receipt.revision == 2)
        let revision = try await DatabaseQueue(path: cluster.zonePath).read {
            try Int64.fetchOne($0, sql: "SELECT revision FROM tidemark_zone")
        }
        #expect(revision == receipt.revision)
    }
}

/// A server that accepts no token.
private struct Denied: ForwardingTransport {
    let real: InProcessTransport

    func sync(zone: String, body: [UInt8]) async throws -> [UInt8] {
        throw TidemarkError(.signInNeeded, "The token is not valid.", fix: "Sign in again.")
    }
}

/// A server that cannot be reached.
private struct Silent: ForwardingTransport {
    let real: InProcessTransport

    func sync(zone: String, body: [UInt8]) async throws -> [UInt8] { throw FaultPlan.lost }
}
