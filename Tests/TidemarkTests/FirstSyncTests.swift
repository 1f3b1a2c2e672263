import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Rule 36: the first sync of a device where the server's snapshot may be somewhat old.
@Suite struct FirstSyncTests {
    private static let schema = "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)"
    private static let all = "SELECT group_concat(text, ' ') FROM (SELECT text FROM note ORDER BY id)"

    /// A server with a snapshot of revision 1, and a zone two revisions further.
    private static func cluster() async throws -> (Cluster, TestDevice) {
        var limits = Limits.standard
        limits.snapshotRevisionsBehindMax = 100
        let cluster = try Cluster(
            schema: schema, seed: "INSERT INTO note (text) VALUES ('milk'), ('bread')", limits: limits)
        let anna = try await cluster.device("anna")
        for sql in ["UPDATE note SET text = 'oats' WHERE id = 1", "DELETE FROM note WHERE id = 2"] {
            try await anna.write(sql)
            try await anna.engine.sync()
        }
        return (cluster, anna)
    }

    @Test func `F4: edits from before the first sync are applied on top of older rows, all agree`() async throws {
        let (cluster, anna) = try await Self.cluster()
        let file = try DatabasePool(path: cluster.folder.appendingPathComponent("ben.sqlite").path)
        try await file.write { try $0.execute(sql: Self.schema) }
        let way = InProcessTransport(to: cluster.service)
        let engine = try await SyncEngine(file, server: "http://cluster.test", transport: way)
        try await file.write { try $0.execute(sql: "INSERT INTO note VALUES (-1, 'tea')") }
        let events = engine.deviceEvents
        try await engine.sync()
        await engine.finishEvents()
        let snapshots = await events.reduce(into: [Int64]()) { list, event in
            if case .snapshotTaken(let revision, _) = event { list.append(revision) }
        }
        #expect(snapshots == [1])
        #expect(try await file.read { try String.fetchOne($0, sql: Self.all) } == "oats tea")
        try await anna.engine.sync()
        #expect(try await anna.rows(Self.all) == ["oats tea"])
    }

    @Test func `F4: a device with rows never takes an older snapshot`() async throws {
        let (cluster, anna) = try await Self.cluster()
        let late = try await cluster.device("late")
        #expect(try await late.engine.status().revision == 1)
        // Its rows are damaged, so that it has to compare them with the server's.
        try await late.engine.sync()
        try late.writeOutside(
            """
            UPDATE tidemark_state SET applying = 1; UPDATE note SET text = 'harm';
            UPDATE tidemark_state SET applying = 0
            """
        )
        _ = try await late.engine.verify(repairing: true)
        #expect(try await late.engine.status().revision == 3)
        try await cluster.converge(anna, late)
    }

    @Test(arguments: [false, true])
    func `rule 10: a migration's values from before the first sync are in the device's creations`(rebuilds: Bool)
        async throws
    {
        let added = """
            CREATE TABLE club (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE member (who TEXT PRIMARY KEY, club_id INTEGER REFERENCES club);
            CREATE INDEX member_club ON member (club_id);
            """
        let grow = "ALTER TABLE note ADD COLUMN stars INTEGER DEFAULT 3;" + added
        let cluster = try Cluster(schema: Self.schema + ";" + grow, seed: "INSERT INTO club (name) VALUES ('Lemgo')")
        let path = cluster.folder.appendingPathComponent("ben.sqlite").path
        let file = try DatabasePool(path: path)
        try await file.write { try $0.execute(sql: Self.schema) }
        let way = InProcessTransport(to: cluster.service)
        let old = try await SyncEngine(file, server: "http://cluster.test", transport: way)
        try await file.write { try $0.execute(sql: "INSERT INTO note VALUES (-1, 'tea')") }
        #expect(try await old.status().pendingChangeSets == 1)
        let rebuild = """
            CREATE TABLE fresh (id INTEGER PRIMARY KEY, text TEXT, stars INTEGER DEFAULT 3);
            INSERT INTO fresh SELECT id, upper(text), 5 FROM note;
            DROP TABLE note; ALTER TABLE fresh RENAME TO note;
            INSERT INTO note (text) VALUES ('rye');
            """
        let migration = rebuilds ? rebuild + added : grow + "UPDATE note SET stars = 5;"
        try await DatabaseQueue(path: path).write {
            try $0.execute(
                sql: migration + """
                    INSERT INTO club (id, name) VALUES (1, 'Kiel');
                    INSERT INTO member VALUES ('Anna', 1)
                    """
            )
        }
        let new = try await SyncEngine(DatabasePool(path: path), server: "http://cluster.test", transport: way)
        try await new.sync()
        #expect(try await new.conflicts() == [])
        #expect(
            try await cluster.rows("SELECT text, stars FROM note ORDER BY text")
                == (rebuilds ? ["TEA|5", "rye|3"] : ["tea|5"]))
        #expect(try await cluster.rows("SELECT who, name FROM member JOIN club ON club.id = club_id") == ["Anna|Kiel"])
        #expect(try await cluster.rows("SELECT name FROM club ORDER BY id") == ["Lemgo", "Kiel"])
        #expect(try await file.read { try Int.fetchOne($0, sql: "SELECT max(stars) FROM note") } == 5)
    }
}
