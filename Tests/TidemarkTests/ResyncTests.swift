import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkEmbedded
import TidemarkTestSupport

/// If the log does not reach back to a device's revision, or the history is another one, the device
/// takes a snapshot and keeps its outbox.
@Suite struct ResyncTests {
    private static let schema = """
        CREATE TABLE lists (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
        CREATE TABLE notes (id INTEGER PRIMARY KEY,
            list_id INTEGER REFERENCES lists ON DELETE CASCADE, text TEXT UNIQUE, done INTEGER);
        CREATE INDEX notes_list ON notes (list_id);
        """
    private static let seed = """
        INSERT INTO lists (name) VALUES ('home');
        INSERT INTO notes (list_id, text) VALUES (1, 'milk'), (1, 'bread'), (1, 'salt')
        """

    /// The reasons for a snapshot.
    enum Cause: String, CaseIterable {
        case anotherEpoch = "UPDATE tidemark_zone SET epoch = '00000000-0000-4000-8000-00000000beef'"
        case behindTheHorizon = """
            UPDATE tidemark_zone SET horizon = revision;
            DELETE FROM tidemark_revision WHERE revision <= (SELECT horizon FROM tidemark_zone)
            """
    }

    @Test(arguments: Cause.allCases) func `rule 10: a device takes a snapshot, then sends its outbox`(cause: Cause)
        async throws
    {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await anna.write("DELETE FROM notes WHERE id = 2")
        try await anna.engine.sync()
        try cluster.writeOutside(cause.rawValue)

        try await ben.write("UPDATE notes SET done = 1 WHERE id = 3")
        try await ben.write(
            """
            INSERT INTO lists (name) VALUES ('garden');
            INSERT INTO notes (list_id, text) VALUES (last_insert_rowid(), 'rake')
            """
        )
        let events = try await ben.events { try await ben.engine.sync() }
        #expect(events.contains { if case .snapshotTaken = $0 { true } else { false } })
        try await cluster.converge(ben, anna)
        for device in [anna, ben] {
            #expect(
                try await device.rows("SELECT list_id, text, done FROM notes ORDER BY id") == [
                    "1|oat milk|", "1|salt|1", "2|rake|",
                ]
            )
        }
        #expect(try await ben.engine.conflicts().isEmpty)
    }

    @Test(arguments: Cause.allCases)
    func `rule 1: an edit of a record changed meanwhile is a conflict after the snapshot`(cause: Cause) async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await anna.write("DELETE FROM notes WHERE id = 2")
        try await anna.engine.sync()
        try cluster.writeOutside(cause.rawValue)
        try await ben.write("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        try await ben.write("UPDATE notes SET done = 1 WHERE id = 2")
        try await ben.write("INSERT INTO notes (text) VALUES ('oat milk')")
        try await cluster.converge(ben, anna)
        #expect(try await ben.rows("SELECT text FROM notes ORDER BY id") == ["oat milk", "salt"])
        #expect(try await ben.engine.conflicts().map(\.reasons.first?.rule) == ["changed", "deleted", "unique"])
    }

    @Test(arguments: Cause.allCases)
    func `rule 12: a change set with an answer lost before the snapshot has one effect`(cause: Cause) async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await ben.write("INSERT INTO lists (name) VALUES ('garden')")
        ben.transport.faults.add(.answerLost)
        await ben.syncInVain()
        try cluster.writeOutside(cause.rawValue)
        try await ben.write("INSERT INTO notes (list_id, text) SELECT max(id), 'rake' FROM lists")
        try await ben.engine.sync()
        try await cluster.converge(ben, anna)
        #expect(try await anna.rows("SELECT name FROM lists ORDER BY id") == ["home", "garden"])
        #expect(try await anna.rows("SELECT list_id FROM notes WHERE text = 'rake'") == ["2"])
    }

    @Test func `rule 10: a server restored from a backup receives the outbox`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let ben = try await cluster.device("ben")
        let backup = cluster.folder.appendingPathComponent("backup.sqlite").path
        try await DatabaseQueue(path: cluster.zonePath).vacuum(into: backup)
        try await ben.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await ben.engine.sync()
        try await ben.write("INSERT INTO notes (list_id, text) VALUES (1, 'tea')")
        try await ben.write("UPDATE notes SET done = 1 WHERE id = 3")

        let restored = try EmbeddedStore(path: backup, newEpoch: UUID())
        let engine = try await SyncEngine(
            ben.database, server: "http://cluster.test", transport: InProcessTransport(to: restored))
        try await engine.sync()
        #expect(try await engine.status().revision == restored.state().revision)
        #expect(try await ben.digest().hash == restored.digest(zone: "main").hash)
        #expect(
            try await ben.rows("SELECT text, done FROM notes ORDER BY id") == ["oat milk|", "bread|", "salt|1", "tea|"])
        #expect(try await engine.conflicts().isEmpty)
    }

    @Test func `rule 10: a parked conflict survives the snapshot`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await ben.write("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        try await cluster.converge(anna, ben)
        try cluster.writeOutside(Cause.anotherEpoch.rawValue)
        try await ben.engine.sync()
        let conflict = try #require(try await ben.engine.conflicts().first)
        try await ben.engine.resolve(conflict.id, with: .retry)
        try await cluster.converge(ben, anna)
        #expect(try await anna.rows("SELECT text FROM notes WHERE id = 1") == ["goat milk"])
    }

    @Test func `rule 10: a failed snapshot download loses nothing`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try cluster.writeOutside(Cause.anotherEpoch.rawValue)
        try await ben.write("UPDATE notes SET done = 1 WHERE id = 3")
        ben.transport.faults.add(.none, .requestLost)
        await ben.syncInVain()
        #expect(try await ben.rows("SELECT done FROM notes WHERE id = 3") == ["1"])
        #expect(try await ben.engine.status().pendingChangeSets == 1)
        try await cluster.converge(ben, anna)
        #expect(try await anna.rows("SELECT done FROM notes WHERE id = 3") == ["1"])
    }
}
