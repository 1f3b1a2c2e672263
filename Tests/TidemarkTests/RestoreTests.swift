import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Cases 7 and 63: the server's file was restored from a backup, or is gone.
///
/// Devices notice it, also without `--restored`, and offer forgotten change sets again.
@Suite struct RestoreTests {
    private static let schema = """
        CREATE TABLE lists (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
        CREATE TABLE notes (id INTEGER PRIMARY KEY,
            list_id INTEGER REFERENCES lists ON DELETE CASCADE, text TEXT, done INTEGER);
        CREATE INDEX notes_list ON notes (list_id);
        CREATE TABLE tags (name TEXT PRIMARY KEY, colour BLOB);
        CREATE TABLE note_tags (note_id INTEGER REFERENCES notes ON DELETE CASCADE,
            tag TEXT REFERENCES tags, PRIMARY KEY (note_id, tag));
        CREATE INDEX note_tags_tag ON note_tags (tag);
        """
    private static let seed = """
        INSERT INTO lists (name) VALUES ('home');
        INSERT INTO notes (list_id, text) VALUES (1, 'milk'), (1, 'bread'), (1, 'salt');
        INSERT INTO tags VALUES ('red', x'ff0000')
        """

    /// The kinds of restores.
    enum Way: CaseIterable {
        /// With `--restored`.
        case said
        /// Without, while devices are ahead of it.
        case unsaid
        /// Without, after other devices' edits have brought the server past every device.
        case unsaidAndPassed
    }

    private static func restore(_ cluster: Cluster, _ backup: String, _ way: Way) async throws {
        try await cluster.restore(backup, isSaid: way == .said)
        guard way == .unsaidAndPassed else { return }
        let newcomer = try await cluster.device("newcomer")
        for number in 1...12 {
            try await newcomer.write("INSERT INTO notes (list_id, text) VALUES (1, 'newcomer \(number)')")
            try await newcomer.engine.sync()
        }
    }

    /// A server with two devices that have synced, and a backup of it from then.
    private static func backedUp() async throws -> (
        cluster: Cluster, anna: TestDevice, ben: TestDevice, backup: String
    ) {
        let cluster = try Cluster(schema: schema, seed: seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await cluster.converge(anna, ben)
        return try await (cluster, anna, ben, cluster.backUp())
    }

    private static let mine = """
        SELECT l.name, n.text, n.done FROM notes AS n JOIN lists AS l ON l.id = n.list_id
        WHERE n.text NOT LIKE 'newcomer%' ORDER BY n.text
        """

    @Test(arguments: Way.allCases)
    func `rule 14: acknowledged change sets that the server forgot are offered again`(way: Way)
        async throws
    {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("UPDATE notes SET done = 0 WHERE id = 1")
        try await cluster.converge(anna, ben)
        let backup = try await cluster.backUp()
        try await anna.write(
            """
            INSERT INTO lists (name) VALUES ('garden');
            INSERT INTO notes (list_id, text) SELECT max(id), 'rake' FROM lists
            """
        )
        try await anna.engine.sync()
        try await anna.write("UPDATE notes SET text = 'big rake' WHERE text = 'rake'")
        try await anna.write("UPDATE notes SET done = 1 WHERE id = 1")
        try await anna.write("DELETE FROM notes WHERE id = 3")
        try await anna.write("INSERT INTO tags VALUES ('green', NULL)")
        try await anna.write("INSERT INTO note_tags SELECT id, 'green' FROM notes WHERE text = 'big rake'")
        try await anna.engine.sync()
        // Pending when the server comes back, and dependent on forgotten change sets.
        try await anna.write("INSERT INTO notes (list_id, text) SELECT max(id), 'hoe' FROM lists")
        try await anna.write("UPDATE notes SET done = 1 WHERE text = 'big rake'")
        try await Self.restore(cluster, backup, way)

        let events = try await anna.events { try await anna.engine.sync() }
        #expect(events.contains { if case .historyChanged(_, 6) = $0 { true } else { false } })
        #expect(try await anna.engine.conflicts() == [])
        try await cluster.converge(anna, ben)
        #expect(
            try await cluster.rows(Self.mine) == ["garden|big rake|1", "home|bread|", "garden|hoe|", "home|milk|1"])
        #expect(
            try await cluster.rows("SELECT n.text, tag FROM note_tags JOIN notes AS n ON n.id = note_id") == [
                "big rake|green"
            ])
        #expect(try await cluster.rows("PRAGMA foreign_key_check") == [])
    }

    @Test(arguments: Way.allCases) func `rule 1 and 14: changes of others in the new history are not overwritten`(
        way: Way
    ) async throws {
        let (cluster, anna, ben, backup) = try await Self.backedUp()
        try await anna.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await anna.write("DELETE FROM notes WHERE id = 2")
        try await anna.write("UPDATE notes SET done = 1 WHERE id = 3")
        try await anna.write("INSERT INTO tags VALUES ('green', x'00ff00')")
        try await anna.engine.sync()
        try await Self.restore(cluster, backup, way)
        try await ben.write("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        try await ben.write("UPDATE notes SET text = 'rye bread' WHERE id = 2")
        try await ben.write("UPDATE notes SET done = 1 WHERE id = 3")
        try await ben.write("INSERT INTO tags VALUES ('green', x'00aa00')")
        try await ben.engine.sync()
        try await anna.engine.sync()
        let conflicts = try await anna.engine.conflicts()
        #expect(conflicts.map(\.reasons.first?.rule) == ["changed", "changed", "exists"])
        #expect(conflicts.first?.records.first?.mine == #"{"text":"oat milk"}"#)
        #expect(conflicts.first?.records.first?.theirs?.contains("goat milk") == true)
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows(Self.mine) == ["home|goat milk|", "home|rye bread|", "home|salt|1"])
        // Parked change sets can be retried.
        try await anna.engine.resolve(conflicts[0].id, with: .retry)
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT text FROM notes WHERE id = 1") == ["oat milk"])
    }

    @Test func `I9: after two restores of the server, an older copy of a device offers a new record under the same id`()
        async throws
    {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        try await anna.engine.sync()
        let backup = try await cluster.backUp()
        try await anna.write("INSERT INTO lists (name) VALUES ('garden')")
        try await anna.engine.sync()
        let old = try await anna.copy("old")
        for _ in 1...2 {
            try await Self.restore(cluster, backup, .said)
            try await anna.engine.sync()
        }
        // Anna's file is lost, and comes back from its backup.
        try await old.engine.sync()
        try await cluster.converge(old)
        #expect(try await cluster.rows("SELECT count(*) FROM lists WHERE name = 'garden'") == ["1"])
    }

    @Test func `I9: a change set offered again is not offered once more to a server that has the first one`()
        async throws
    {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        try await anna.engine.sync()
        let backup = try await cluster.backUp()
        try await anna.write("INSERT INTO lists (name) VALUES ('garden')")
        try await anna.engine.sync()
        let later = try await cluster.backUp()
        try await Self.restore(cluster, backup, .said)
        try await anna.engine.sync()
        try await Self.restore(cluster, later, .said)
        try await anna.engine.sync()
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT count(*) FROM lists WHERE name = 'garden'") == ["1"])
    }

    @Test func `I9: a change set offered again stays visible while the server is unreachable`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let way = EndingTransport(InProcessTransport(to: cluster.service))
        let anna = try await cluster.device("anna", over: way)
        let backup = try await cluster.backUp()
        try await anna.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await anna.engine.sync()
        try await Self.restore(cluster, backup, .said)
        way.endsAfterSnapshot = true
        await #expect(throws: TidemarkError.self) { try await anna.engine.sync() }
        #expect(try await anna.rows("SELECT text FROM notes WHERE id = 1") == ["oat milk"])
        way.endsAfterSnapshot = false
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT text FROM notes WHERE id = 1") == ["oat milk"])
    }

    @Test(arguments: Way.allCases) func `rule 14: a device that only reads also notices the new history`(way: Way)
        async throws
    {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        let backup = try await cluster.backUp()
        try await anna.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await anna.engine.sync()
        try await ben.engine.sync()
        try await Self.restore(cluster, backup, way)
        // Anna is gone for good: edits that only she had do not come back.
        try await cluster.converge(ben)
        #expect(try await ben.rows("SELECT text FROM notes WHERE id = 1") == ["milk"])
    }

    @Test func `rule 14: no reference follows an id that names another record now`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        let backup = try await cluster.backUp()
        try await anna.write("INSERT INTO lists (name) VALUES ('garden')")
        try await cluster.converge(anna, ben)
        // Ben files a note under list 2, the garden, which the server has forgotten.
        try await ben.write("INSERT INTO notes (list_id, text) VALUES (2, 'rake')")
        try await cluster.restore(backup)
        let newcomer = try await cluster.device("newcomer")
        try await newcomer.write("INSERT INTO lists (name) VALUES ('secret')")
        try await newcomer.engine.sync()
        try await ben.engine.sync()
        #expect(try await ben.engine.conflicts().map(\.reasons.first?.rule) == ["changed"])
        try await cluster.converge(anna, ben, newcomer)
        #expect(try await cluster.rows("SELECT name FROM lists ORDER BY id") == ["home", "secret", "garden"])
        #expect(try await cluster.rows("SELECT count(*) FROM notes WHERE list_id = 2") == ["0"])
    }

    @Test func `case 63: a wiped server gets back the latest change sets of its devices`() async throws {
        let cluster = try Cluster(schema: Self.schema)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write(
            """
            INSERT INTO lists (name) VALUES ('home');
            INSERT INTO notes (list_id, text) VALUES (last_insert_rowid(), 'milk')
            """
        )
        try await cluster.converge(anna, ben)
        try await ben.write("UPDATE notes SET done = 1")
        try await cluster.converge(anna, ben)
        try await cluster.restore(nil)
        try await cluster.converge(anna)
        try await ben.engine.sync()
        try await anna.engine.sync()
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows(Self.mine) == ["home|milk|1"])
        #expect(try await ben.engine.conflicts().isEmpty)
    }

    @Test(arguments: Way.allCases)
    func `rule 1: an acknowledged deletion that is offered again takes no child along that others made meanwhile`(
        way: Way
    ) async throws {
        let (cluster, anna, ben, backup) = try await Self.backedUp()
        try await anna.write("DELETE FROM lists WHERE id = 1")
        try await anna.engine.sync()
        try await Self.restore(cluster, backup, way)
        try await ben.write("INSERT INTO notes (list_id, text) VALUES (1, 'eggs')")
        try await ben.engine.sync()
        try await anna.engine.sync()
        #expect(try await anna.engine.conflicts().flatMap(\.reasons).map(\.rule).contains("referenced"))
        try await cluster.converge(anna, ben)
        #expect(
            try await cluster.rows(Self.mine) == ["home|bread|", "home|eggs|", "home|milk|", "home|salt|"])
    }

    /// Makes a table again, as migrations do; no trigger captures what follows before the engine opens the file.
    private static let rebuildTags = """
        CREATE TABLE fresh (name TEXT PRIMARY KEY, colour BLOB); INSERT INTO fresh SELECT * FROM tags;
        DROP TABLE tags; ALTER TABLE fresh RENAME TO tags;
        """

    @Test(arguments: Way.allCases)
    func `rule 1: after a restore, an edit without triggers beside a rebuilt table becomes a conflict`(way: Way)
        async throws
    {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        try await cluster.converge(anna)
        let backup = try await cluster.backUp()
        try await anna.write("UPDATE notes SET done = 1 WHERE id = 2")
        try await anna.engine.sync()
        try anna.corrupt("UPDATE notes SET text = 'oat milk' WHERE id = 1; \(Self.rebuildTags)")
        try await Self.restore(cluster, backup, way)
        let later = try await anna.reopened()
        try await later.engine.sync()
        let records = try await later.engine.conflicts().flatMap(\.records)
        #expect(records.map { "\($0.table) \($0.key)" } == ["notes 1"])
        #expect(records.first?.mine?.contains(#""text":"oat milk""#) == true)
        try await cluster.converge(later)
        #expect(try await cluster.rows(Self.mine) == ["home|bread|1", "home|milk|", "home|salt|"])
    }

    @Test(arguments: Way.allCases)
    func `rule 14: acknowledged rows of a table that a migration rebuilt are offered once after a restore`(way: Way)
        async throws
    {
        let (cluster, anna, ben, backup) = try await Self.backedUp()
        try await anna.write("INSERT INTO tags VALUES ('green', x'00ff00')")
        try await anna.engine.sync()
        try anna.writeOutside(Self.rebuildTags)
        try await Self.restore(cluster, backup, way)
        let later = try await anna.reopened()
        try await later.engine.sync()
        #expect(try await later.engine.conflicts() == [])
        try await cluster.converge(later, ben)
        #expect(try await ben.rows("SELECT name FROM tags ORDER BY name") == ["green", "red"])
    }

    @Test func `rule 14: two copies of a file offer a forgotten change set once`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let backup = try await cluster.backUp()
        try await anna.write("INSERT INTO notes (list_id, text) VALUES (1, 'tea')")
        try await anna.engine.sync()
        let twin = try await anna.copy("twin")
        try await cluster.restore(backup, isSaid: true)
        try await anna.engine.sync()
        try await twin.engine.sync()
        try await cluster.converge(anna, twin)
        #expect(try await cluster.rows("SELECT count(*) FROM notes WHERE text = 'tea'") == ["1"])
    }

    @Test func `rule 14: a view with an old id finds the record after the restore`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let backup = try await cluster.backUp()
        let draw = "INSERT INTO notes (list_id, text) VALUES (1, 'tea') RETURNING id"
        let id = try #require(try await anna.database.write { try Int64.fetchOne($0, sql: draw) })
        try await anna.engine.sync()
        try await Self.restore(cluster, backup, .unsaidAndPassed)
        try await cluster.converge(anna)
        let now = try #require(try await anna.engine.permanentID(for: id, in: "notes"))
        #expect(try await anna.rows("SELECT text FROM notes WHERE id = \(now)") == ["tea"])
    }

    @Test func `rule 14: the change sets kept for a restore are bounded`() async throws {
        var limits = Limits.standard
        limits.keptChangeSetsMax = 5
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna", limits: limits)
        for number in 1...9 {
            try await anna.write("INSERT INTO notes (list_id, text) VALUES (1, '\(number)')")
            try await anna.engine.sync()
        }
        #expect(try await anna.rows("SELECT count(*) FROM tidemark_kept") == ["5"])
        #expect(
            try await anna.rows("SELECT attributes ->> '$.text' FROM tidemark_kept_record ORDER BY number") == [
                "5", "6", "7", "8", "9",
            ]
        )
        limits.keptBytesMax = 200
        let ben = try await cluster.device("ben", limits: limits)
        try await ben.write("UPDATE notes SET text = '\(String(repeating: "x", count: 300))'")
        try await ben.engine.sync()
        #expect(try await ben.rows("SELECT count(*) FROM tidemark_kept_record") == ["0"])
        // A change set too large to keep displaces no other, whichever comes back.
        for size in [10, 300] {
            try await ben.write("INSERT INTO lists (name) VALUES ('\(String(repeating: "y", count: size))')")
        }
        try await ben.engine.sync()
        #expect(try await ben.rows("SELECT count(*) FROM tidemark_kept_record") == ["1"])
    }

    @Test func `rule 1 and 14: an edit made before a change arrived does not overwrite it`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        try await anna.engine.sync()
        try await ben.write("UPDATE notes SET text = 'rye bread' WHERE id = 2")
        // The answer brings the goat milk, which the author has not seen.
        ben.transport.faults.whileInFlight { try await ben.write("UPDATE notes SET text = 'oat milk' WHERE id = 1") }
        ben.transport.faults.add(.none, .requestLost)
        await ben.syncInVain()
        try await cluster.restore(try await cluster.backUp(), isSaid: true)
        try await ben.engine.sync()
        let conflict = try #require(try await ben.engine.conflicts().first)
        #expect(conflict.records.first?.base?.contains(#""text":"milk""#) == true)
        #expect(conflict.records.first?.theirs?.contains(#""text":"goat milk""#) == true)
        try await cluster.converge(ben, anna)
        #expect(try await cluster.rows("SELECT text FROM notes ORDER BY id") == ["goat milk", "rye bread", "salt"])
    }

    @Test func `rule 14: the zone remembers its former histories`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let first = try await cluster.store.state().epoch
        try await anna.write("UPDATE notes SET done = 1 WHERE id = 1")
        try await anna.engine.sync()
        try await cluster.restore(try await cluster.backUp(), isSaid: true)
        #expect(try await cluster.rows("SELECT epoch, ended FROM tidemark_lineage") == ["\(first)|2"])
        let request = try #require(anna.transport.faults.requests.last)
        await #expect { try await cluster.store.sync(zone: "main", body: Array(request.utf8)) } throws: {
            "\($0)".contains("a backup was restored") && "\($0)".contains("ended at revision 2")
        }
        // The server forgot nothing: nothing is offered, and nothing is in conflict.
        let events = try await anna.events { try await anna.engine.sync() }
        #expect(events.contains { if case .historyChanged(_, 0) = $0 { true } else { false } })
        try await cluster.converge(anna)
        #expect(try await anna.engine.conflicts().isEmpty)
    }

    @Test func `rule 14: forgotten edits are offered under the column's current name`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let backup = try await cluster.backUp()
        try await anna.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await anna.write("DELETE FROM notes WHERE id = 3")
        try await anna.write("INSERT INTO notes (list_id, text) VALUES (1, 'rake')")
        try await anna.engine.sync()
        try anna.writeOutside("ALTER TABLE notes RENAME COLUMN text TO body")
        let renamed = try await SyncEngine(
            DatabasePool(path: anna.path), server: "http://cluster.test",
            transport: InProcessTransport(to: cluster.service), renames: ["notes.text": "notes.body"])
        try await cluster.restore(backup, isSaid: true)
        try await renamed.sync()
        #expect(try await renamed.conflicts() == [])
        #expect(try await cluster.rows(Self.mine) == ["home|bread|", "home|oat milk|", "home|rake|"])
        #expect(try await anna.rows("SELECT body FROM notes ORDER BY body") == ["bread", "oat milk", "rake"])
    }

    @Test func `rule 14: a column added since by the app does not block offering a change again`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        var anna = try await cluster.device("anna")
        let backup = try await cluster.backUp()
        try await anna.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await anna.write("DELETE FROM notes WHERE id = 3")
        try await anna.engine.sync()
        try anna.writeOutside("ALTER TABLE notes ADD COLUMN stars INTEGER DEFAULT 3")
        anna = try await anna.reopened()
        try await cluster.restore(backup, isSaid: true)
        try await anna.engine.sync()
        #expect(try await anna.engine.conflicts() == [])
        #expect(try await cluster.rows(Self.mine) == ["home|bread|", "home|oat milk|"])
    }

    @Test func `rule 14: an edit of a column that the app has dropped since is not forgotten`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        var anna = try await cluster.device("anna")
        let backup = try await cluster.backUp()
        try await anna.write("UPDATE tags SET colour = x'00ff00' WHERE name = 'red'")
        try await anna.engine.sync()
        try anna.writeOutside(
            """
            CREATE TABLE fresh (name TEXT PRIMARY KEY);
            INSERT INTO fresh SELECT name FROM tags; DROP TABLE tags; ALTER TABLE fresh RENAME TO tags;
            """
        )
        anna = try await anna.reopened()
        try await cluster.restore(backup, isSaid: true)
        try await anna.engine.sync()
        #expect(try await anna.engine.conflicts().map(\.reasons.first?.rule) == ["changed"])
    }
}
