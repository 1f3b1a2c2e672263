import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Rule 24, case 60: the server keeps a number of revisions, and a device has been away for
/// longer.
@Suite struct HorizonTests {
    private static let schema = """
        CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT, done INTEGER, stars INTEGER);
        CREATE TABLE tags (name TEXT PRIMARY KEY, colour TEXT);
        """
    private static let seed = """
        INSERT INTO notes (text) VALUES ('milk'), ('bread'), ('salt'), ('tea');
        INSERT INTO tags VALUES ('red', 'a'), ('blue', 'b')
        """

    private static func start(_ policy: ConflictPolicy, ofDevices: Limits = .standard) async throws -> (
        cluster: Cluster, anna: TestDevice, ben: TestDevice
    ) {
        var limits = Limits.standard
        limits.revisionsKept = 2
        limits.compactionStepMin = 1
        limits.compactionStepMax = 3
        let cluster = try Cluster(
            schema: schema, seed: seed, policies: ["notes": policy, "tags": policy], limits: limits)
        let anna = try await cluster.device("anna", limits: ofDevices)
        let ben = try await cluster.device("ben", limits: ofDevices)
        for device in [anna, ben] { try await device.engine.sync() }
        return (cluster, anna, ben)
    }

    /// Makes revisions of unrelated records, until the horizon is above the others.
    private static func moveOn(_ cluster: Cluster, _ anna: TestDevice) async throws {
        for number in 1...8 {
            try await anna.write("UPDATE notes SET stars = \(number) WHERE id = 4")
            try await anna.engine.sync()
        }
        #expect(try await cluster.rows("SELECT horizon >= revision - 5 FROM tidemark_zone") == ["1"])
    }

    @Test(arguments: [ConflictPolicy.reject, .columns])
    func `case 60: a device below the horizon keeps its outbox and restores no deleted record`(policy: ConflictPolicy)
        async throws
    {
        let (cluster, anna, ben) = try await Self.start(policy)
        try await anna.write("DELETE FROM notes WHERE id = 1")
        try await anna.write("DELETE FROM tags WHERE name = 'red'")
        try await anna.engine.sync()
        try await Self.moveOn(cluster, anna)
        #expect(try await cluster.rows("SELECT count(*) FROM tidemark_log WHERE key = '1'") == ["0"])
        #expect(try await cluster.rows("SELECT count(*) FROM tidemark_revision WHERE body = ''") != ["0"])
        try await ben.write("UPDATE notes SET done = 1 WHERE id = 1")
        try await ben.write("UPDATE notes SET done = 1 WHERE id = 3")
        try await ben.write("DELETE FROM tags WHERE name = 'red'")
        try await ben.write("INSERT INTO tags VALUES ('red', 'again')")
        try await ben.write("INSERT INTO notes (text) VALUES ('new')")
        let events = try await ben.events { try await ben.engine.sync() }
        #expect(events.contains { if case .snapshotTaken = $0 { true } else { false } })
        #expect(try await ben.engine.conflicts().first?.reasons.first?.rule == "deleted")
        try await cluster.converge(ben, anna)
        #expect(
            try await cluster.rows("SELECT text, done FROM notes ORDER BY text") == [
                "bread|", "new|", "salt|1", "tea|",
            ]
        )
    }

    @Test(arguments: [ConflictPolicy.reject, .columns])
    func `rule 1: an edit with a base below the horizon is judged against all later changes`(policy: ConflictPolicy)
        async throws
    {
        let (cluster, anna, ben) = try await Self.start(policy)
        for sql in [
            "UPDATE notes SET text = 'rice milk' WHERE id = 1", "UPDATE notes SET text = 'oat milk' WHERE id = 1",
            "UPDATE notes SET done = 0 WHERE id = 1", "UPDATE notes SET text = 'rye bread' WHERE id = 2",
            "DELETE FROM tags WHERE name = 'blue'", "INSERT INTO tags VALUES ('blue', 'new')",
        ] {
            try await anna.write(sql)
            try await anna.engine.sync()
        }
        try await ben.write("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        try await ben.write("UPDATE notes SET stars = 5 WHERE id = 2")
        try await ben.write("UPDATE notes SET stars = 5 WHERE id = 3")
        try await ben.write("UPDATE tags SET colour = 'mine' WHERE name = 'blue'")
        try await Self.moveOn(cluster, anna)
        let entries = "SELECT columns FROM tidemark_log WHERE key = '1' ORDER BY revision"
        #expect(try await cluster.rows(entries) == [#"["text"]"#, #"["done"]"#])
        try await cluster.converge(ben, anna)
        let merged = policy == .columns
        #expect(try await ben.engine.conflicts().count == (merged ? 2 : 3))
        #expect(
            try await cluster.rows("SELECT text, stars FROM notes WHERE id < 4 ORDER BY id") == [
                "oat milk|", merged ? "rye bread|5" : "rye bread|", "salt|5",
            ]
        )
        #expect(try await cluster.rows("SELECT colour FROM tags WHERE name = 'blue'") == ["new"])
    }

    @Test func `rule 3: a retry from below the horizon has one effect and gets its ids`() async throws {
        let (cluster, anna, ben) = try await Self.start(.reject, ofDevices: .withoutLending)
        let draw = "INSERT INTO notes (text) VALUES ('new') RETURNING id"
        let id = try #require(try await ben.database.write { try Int64.fetchOne($0, sql: draw) })
        ben.transport.faults.add(.answerLost)
        await ben.syncInVain()
        try await Self.moveOn(cluster, anna)
        try await ben.write("UPDATE notes SET done = 1 WHERE text = 'new'")
        try await cluster.converge(ben, anna)
        #expect(try await cluster.rows("SELECT text, done FROM notes WHERE text = 'new'") == ["new|1"])
        #expect(try await ben.engine.permanentID(for: id, in: "notes") == 5)
        #expect(try await ben.engine.conflicts().isEmpty)
    }

    @Test func `rule 3: a change set accepted and compacted meanwhile is no conflict, for any key`() async throws {
        let (cluster, anna, ben) = try await Self.start(.reject)
        try await ben.write("INSERT INTO tags VALUES ('green', 'c')")
        try await ben.write("INSERT INTO notes (text) VALUES ('new')")
        try await ben.write("UPDATE tags SET colour = 'd' WHERE name = 'red'")
        ben.transport.faults.add(.answerLost)
        await ben.syncInVain()
        try await Self.moveOn(cluster, anna)
        try await cluster.converge(ben, anna)
        #expect(try await ben.engine.conflicts() == [])
        #expect(try await ben.rows("SELECT name, colour FROM tags ORDER BY name") == ["blue|b", "green|c", "red|d"])
    }

    @Test func `B8: an overruled value is in the inbox after its answer was lost and compacted`() async throws {
        let (cluster, anna, _) = try await Self.start(.latest)
        // The slow clock makes the edit the older one.
        let cleo = try await cluster.device("cleo", clock: { 1_600_000_000_000 })
        try await cleo.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await anna.write("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        try await anna.engine.sync()
        cleo.transport.faults.add(.answerLost)
        await cleo.syncInVain()
        try await Self.moveOn(cluster, anna)
        let events = try await cleo.events { try await cleo.engine.sync() }
        #expect(events.contains { if case .snapshotTaken = $0 { true } else { false } })
        try await cluster.converge(cleo, anna)
        #expect(try await cluster.rows("SELECT text FROM notes WHERE id = 1") == ["goat milk"])
        let inbox = try await cleo.engine.conflicts()
        #expect(inbox.map(\.kind) == [.overruled])
        #expect(inbox.flatMap { $0.records.map(\.mine) } == [#"{"text":"oat milk"}"#])
    }
}
