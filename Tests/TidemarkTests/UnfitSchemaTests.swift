import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkEmbedded
import TidemarkTestSupport

/// Both sides have tables that cannot be synced with each other, until one of them is altered:
/// writes of the meantime stay, and are sent when the tables fit.
@Suite struct UnfitSchemaTests {
    private static let schema = """
        CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL, done INTEGER DEFAULT 0);
        CREATE TABLE tags (name TEXT PRIMARY KEY, colour TEXT);
        """
    private static let seed = """
        INSERT INTO notes (text) VALUES ('milk'), ('bread'), ('salt');
        INSERT INTO tags VALUES ('red', 'f00')
        """

    /// Rebuilds the notes so that their text is a BLOB column.
    private static let untyped = """
        CREATE TABLE fresh (
            id INTEGER PRIMARY KEY AUTOINCREMENT, text BLOB, done INTEGER DEFAULT 0);
        INSERT INTO fresh SELECT * FROM notes; DROP TABLE notes; ALTER TABLE fresh RENAME TO notes;
        """

    /// Rebuilds the tags with a column that no record of another device has.
    private static func tagged(_ column: String) -> String {
        """
        CREATE TABLE fresh (name TEXT PRIMARY KEY, colour TEXT, \(column));
        INSERT INTO fresh SELECT name, colour, 'x' FROM tags;
        DROP TABLE tags; ALTER TABLE fresh RENAME TO tags;
        """
    }

    private static func code(of device: TestDevice) async -> ErrorCode? {
        let error = await #expect(throws: TidemarkError.self) { try await device.engine.sync() }
        return error?.code
    }

    @Test func `after a schemaMismatch a device syncs as soon as the server has migrated`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        var anna = try await cluster.device("anna")
        try anna.writeOutside(Self.untyped)
        anna = try await anna.reopened()
        try await anna.write("UPDATE notes SET done = 1 WHERE id = 1")
        #expect(await Self.code(of: anna) == .schemaMismatch)
        #expect(await Self.code(of: anna) == .schemaMismatch)
        try cluster.writeOutside(Self.untyped)
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT done FROM notes ORDER BY id") == ["1", "0", "0"])
    }

    @Test func `after a schemaMismatch a device syncs as soon as its app has migrated`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        var anna = try await cluster.device("anna")
        try await anna.write("UPDATE notes SET done = 1 WHERE id = 1")
        try cluster.writeOutside(Self.untyped)
        #expect(await Self.code(of: anna) == .schemaMismatch)
        try anna.writeOutside(Self.untyped)
        anna = try await anna.reopened()
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT done FROM notes ORDER BY id") == ["1", "0", "0"])
    }

    @Test func `after a serverBehind a device syncs as soon as the server has the column`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        var anna = try await cluster.device("anna")
        try anna.writeOutside(Self.tagged("icon TEXT NOT NULL"))
        anna = try await anna.reopened()
        try await anna.write("INSERT INTO tags VALUES ('green', '0f0', 'leaf')")
        #expect(await Self.code(of: anna) == .serverBehind)
        try cluster.writeOutside("ALTER TABLE tags ADD COLUMN icon TEXT NOT NULL DEFAULT 'x'")
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT name, icon FROM tags ORDER BY name") == ["green|leaf", "red|x"])
    }

    @Test func `rule 10: edits of a renamed column survive a table that does not fit`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        try await anna.write("UPDATE notes SET text = 'captured before' WHERE id = 3")
        try anna.writeOutside("ALTER TABLE notes RENAME COLUMN text TO body;" + Self.tagged("icon TEXT NOT NULL"))
        let unfit = try await Self.renamed(anna, cluster)
        try anna.writeOutside("UPDATE notes SET body = 'oat milk' WHERE id = 1")
        try anna.writeOutside("UPDATE notes SET body = 'rye', done = 1 WHERE id = 2")
        try anna.writeOutside("INSERT INTO notes (body) VALUES ('rake')")
        let error = await #expect(throws: TidemarkError.self) { try await unfit.sync() }
        #expect(error?.code == .serverBehind)
        try anna.writeOutside(Self.tagged("icon TEXT NOT NULL DEFAULT 'x'"))
        try await Self.renamed(anna, cluster).sync()
        let all = ["oat milk|0", "rye|1", "captured before|0", "rake|0"]
        #expect(try await cluster.rows("SELECT text, done FROM notes ORDER BY id") == all)
        #expect(try await anna.rows("SELECT body, done FROM notes ORDER BY id") == all)
    }

    @Test func `edits of a table with a new foreign key wait until the server has the key, too`() async throws {
        let labels = { (reference: String) in
            "(id INTEGER PRIMARY KEY AUTOINCREMENT, note_id INTEGER \(reference), text TEXT);"
        }
        let rebuild = """
            CREATE TABLE fresh \(labels("REFERENCES notes ON DELETE CASCADE"))
            INSERT INTO fresh SELECT * FROM labels; DROP TABLE labels;
            ALTER TABLE fresh RENAME TO labels;
            """
        let cluster = try Cluster(schema: Self.schema + "CREATE TABLE labels \(labels(""))", seed: Self.seed)
        var anna = try await cluster.device("anna")
        try anna.writeOutside(rebuild)
        anna = try await anna.reopened()
        try await anna.write("INSERT INTO notes (text) VALUES ('rake')")
        try await anna.write("INSERT INTO labels (note_id, text) SELECT max(id), 'rake' FROM notes")
        #expect(await Self.code(of: anna) == .serverBehind)
        #expect(try await cluster.rows("SELECT note_id FROM labels") == [])
        try cluster.writeOutside(rebuild)
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT note_id, text FROM labels") == ["4|rake"])
    }

    private static func renamed(_ device: TestDevice, _ cluster: Cluster) async throws -> SyncEngine {
        try await SyncEngine(
            DatabasePool(path: device.path), server: "http://cluster.test",
            transport: InProcessTransport(to: cluster.service), renames: ["notes.text": "notes.body"])
    }
}
