import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Rule 36: a device that is far behind gets a file of the changed rows instead of all their
/// change sets.
@Suite struct DeltaTests {
    private static let schema = """
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
        CREATE TABLE player (id INTEGER PRIMARY KEY, team INTEGER REFERENCES team, name TEXT);
        CREATE TABLE tag (name TEXT PRIMARY KEY, colour BLOB);
        """
    private static func seed(_ teams: Int = 60) -> String {
        """
        WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < \(teams))
            INSERT INTO team SELECT i, 'T' || i FROM n;
        INSERT INTO player SELECT id, id, 'P' || id FROM team;
        INSERT INTO tag VALUES ('red', x'00'), ('"blue"', 'b')
        """
    }

    /// A zone whose devices count as far behind after any change.
    private static func start(teams: Int = 60, merges: [any RecordMerging] = []) async throws -> (
        Cluster, TestDevice, TestDevice
    ) {
        var limits = Limits.standard
        limits.deltaBytesMin = 1
        let cluster = try Cluster(schema: schema, seed: seed(teams), limits: limits)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben", merges: merges)
        try await cluster.converge(anna, ben)
        return (cluster, anna, ben)
    }

    /// Syncs, and returns whether the device took a snapshot.
    private static func snapshots(_ device: TestDevice) async throws -> Int {
        try await device.events { try await device.engine.sync() }.count {
            if case .snapshotTaken = $0 { true } else { false }
        }
    }

    @Test func `F4: a delta applies many change sets at once, with unique values that moved`() async throws {
        let (cluster, anna, ben) = try await Self.start()
        for sql in [
            "UPDATE team SET name = 'swapping' WHERE id = 1; UPDATE team SET name = 'T1' WHERE id = 2",
            "UPDATE team SET name = 'T2' WHERE id = 1",
            "DELETE FROM player WHERE id = 3; DELETE FROM team WHERE id = 3",
            "INSERT INTO team (name) VALUES ('T3'); INSERT INTO player (team, name) VALUES (1, 'new')",
            "DELETE FROM tag WHERE name = 'red'; UPDATE tag SET colour = x'ff' WHERE name = '\"blue\"'",
            "INSERT INTO tag VALUES ('red', NULL); INSERT INTO tag VALUES ('gone', 1)",
            "DELETE FROM tag WHERE name = 'gone'",
        ] {
            try await anna.write(sql)
            try await anna.engine.sync()
        }
        #expect(try await Self.snapshots(ben) == 0)
        try await cluster.converge(ben, anna)
        #expect(
            try await ben.rows("SELECT id < 4, name FROM team WHERE id < 4 OR name = 'T3' ORDER BY id") == [
                "1|T2", "1|T1", "0|T3",
            ]
        )
        #expect(try await ben.engine.verify().records.isEmpty)
    }

    @Test func `rule 1: pending edits stay on top of a delta, and are judged against its rows`() async throws {
        let (cluster, anna, ben) = try await Self.start()
        try await anna.write("UPDATE team SET name = 'theirs' WHERE id = 1")
        try await anna.write("UPDATE player SET name = 'theirs' WHERE id = 2")
        try await anna.engine.sync()
        try await ben.write("UPDATE team SET name = 'mine' WHERE id = 1")
        try await ben.write("UPDATE player SET name = 'mine' WHERE id = 5")
        try await ben.write("INSERT INTO team (name) VALUES ('own')")
        #expect(try await Self.snapshots(ben) == 0)
        let conflicts = try await ben.engine.conflicts()
        #expect(conflicts.count == 1)
        // The delta's row differs from the edit's base.
        #expect(conflicts.first?.records.first?.base == #"{"name":"T1"}"#)
        try await cluster.converge(ben, anna)
        #expect(
            try await cluster.rows(
                """
                SELECT name FROM team WHERE id = 1 OR id > 60
                UNION ALL SELECT name FROM player WHERE id IN (2, 5)
                """
            ) == ["theirs", "own", "theirs", "mine"]
        )
    }

    @Test func `rule 1: after a delta, merge functions still see that the other side changed the row`() async throws {
        let merges = [
            TableMerge("tag") { _ in nil },
            TableMerge("team") { $0.base?["name"] == $0.theirs["name"] ? $0.mine : nil },
        ]
        for merge in merges {
            let (cluster, anna, ben) = try await Self.start(merges: [merge])
            try await anna.write("UPDATE team SET name = 'theirs' WHERE id = 1")
            try await anna.engine.sync()
            try await ben.write("UPDATE team SET name = 'mine' WHERE id = 1")
            #expect(try await Self.snapshots(ben) == 0)
            try await cluster.converge(ben, anna)
            #expect(try await ben.engine.conflicts().count == 1)
            #expect(try await cluster.rows("SELECT name FROM team WHERE id = 1") == ["theirs"])
        }
    }

    @Test(arguments: [60, 1]) func `a change set committed with a lost answer is not doubled by a delta`(
        changedTeams: Int
    ) async throws {
        let (cluster, anna, ben) = try await Self.start()
        try await ben.write("INSERT INTO player (team, name) VALUES (1, 'own')")
        ben.transport.faults.add(.answerLost)
        await #expect(throws: TidemarkError.self) { try await ben.engine.sync() }
        // A snapshot where most rows have changed, else a delta.
        try await anna.write("UPDATE team SET name = name || '!' WHERE id <= \(changedTeams)")
        try await anna.engine.sync()
        try await ben.write("UPDATE player SET name = 'mine' WHERE id = 5")
        // A request that is too far behind, the comparison, the file, and then no answer.
        ben.transport.faults.add(.none, .none, .none, .requestLost)
        await #expect(throws: TidemarkError.self) { try await ben.engine.sync() }
        #expect(try await ben.rows("SELECT name FROM player WHERE id > 60") == ["own"])
        #expect(try await ben.rows("SELECT name FROM player WHERE id = 5") == ["mine"])
        try await ben.write("UPDATE player SET team = 2 WHERE name = 'own'")
        try await cluster.converge(ben, anna)
        #expect(try await cluster.rows("SELECT team, name FROM player WHERE id = 5 OR id > 60") == ["5|mine", "2|own"])
    }

    @Test func `if most rows changed, the device takes a snapshot`() async throws {
        let (cluster, anna, ben) = try await Self.start()
        try await anna.write("UPDATE team SET name = name || '!'; UPDATE player SET name = '!'")
        try await anna.engine.sync()
        #expect(try await Self.snapshots(ben) == 1)
        try await cluster.converge(ben, anna)
    }

    @Test func `rule 17: a delta applied to wrong rows is rolled back`() async throws {
        let (cluster, anna, ben) = try await Self.start(teams: 700)
        // More rows than each sync verifies: only the delta's own fingerprint shows it.
        try ben.writeOutside(
            """
            UPDATE tidemark_state SET applying = 1;
            UPDATE team SET name = 'bit rot' WHERE id = 7;
            UPDATE tidemark_state SET applying = 0;
            """
        )
        try await anna.write("UPDATE team SET name = 'new' WHERE id = 7")
        try await anna.engine.sync()
        try await ben.engine.sync()
        #expect(try await ben.rows("SELECT name FROM team WHERE id = 7") == ["new"])
        try await cluster.converge(ben, anna)
        #expect(try await ben.engine.verify().records.isEmpty)
    }

    @Test func `rule 19: a delta with many deletions needs the server's confirmation`() async throws {
        let (cluster, anna, ben) = try await Self.start(teams: 400)
        try await anna.write("DELETE FROM player WHERE id <= 200")
        try await anna.engine.sync()
        try await ben.engine.sync()
        #expect(ben.transport.faults.comparisons.count == 1)
        try await cluster.converge(ben, anna)
        #expect(try await ben.rows("SELECT count(*) FROM player") == ["200"])
    }

    @Test func `a lost delta file, and edits made meanwhile, change nothing`() async throws {
        let (cluster, anna, ben) = try await Self.start()
        try await anna.write("UPDATE team SET name = 'one' WHERE id = 1")
        try await anna.engine.sync()
        // The refusal that offers the delta arrives, the file does not.
        ben.transport.faults.add(.none, .requestLost)
        await #expect(throws: TidemarkError.self) { try await ben.engine.sync() }
        try await ben.write("UPDATE team SET name = 'two' WHERE id = 2")
        try await anna.write("UPDATE team SET name = 'three' WHERE id = 3")
        try await anna.engine.sync()
        try await cluster.converge(ben, anna)
        #expect(try await anna.rows("SELECT name FROM team WHERE id < 4 ORDER BY id") == ["one", "two", "three"])
    }

    @Test func `a device with an older schema takes a snapshot`() async throws {
        let (cluster, anna, ben) = try await Self.start()
        try await anna.write("UPDATE team SET name = 'one' WHERE id = 1")
        try await anna.engine.sync()
        let base = try await cluster.store.state()
        let file = try await cluster.store.snapshot(
            zone: "main", since: DeltaBase(epoch: base.epoch, revision: 1, schema: "another"))
        #expect(file.since == nil)
        await cluster.store.releaseSnapshot(file)
        try await cluster.converge(ben, anna)
    }
}
