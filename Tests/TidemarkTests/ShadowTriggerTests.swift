import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkEmbedded
import TidemarkTestSupport

/// A program puts a trigger on a table in which a full-text table keeps its content.
///
/// `enable_counts()` of sqlite-utils does. With capture below it, SQLite 3.40 ends each process that writes a note.
@Suite struct ShadowTriggerTests {
    private static let schema = """
        CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT);
        CREATE VIRTUAL TABLE found USING fts5(text, content='note', content_rowid='id');
        CREATE TRIGGER found_in AFTER INSERT ON note BEGIN
            INSERT INTO found (rowid, text) VALUES (NEW.id, NEW.text); END;
        CREATE TABLE counted (name TEXT PRIMARY KEY, count INTEGER);
        INSERT INTO note (text) VALUES ('first');
        """
    private static let trigger = """
        CREATE TRIGGER counts_data AFTER INSERT ON found_data BEGIN
            INSERT OR REPLACE INTO counted
            VALUES ('found_data', coalesce((SELECT count FROM counted WHERE name = 'found_data'), 0) + 1); END
        """
    private static let cure = #"DROP TRIGGER "counts_data";"#
    private static let notes = "SELECT text FROM note ORDER BY id"

    @Test func `such a file is not adopted and stays as it was, and the printed cure has it served`() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "tidemark-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let path = folder.appending(path: "zone.sqlite").path
        let file = try DatabaseQueue(path: path)
        try await file.write { try $0.execute(sql: Self.schema + Self.trigger) }
        let before = try await file.read { try $0.textRows("SELECT * FROM sqlite_master") }
        let refusal = try #require(throws: UnsyncableSchema.self) { try EmbeddedStore(path: path, newEpoch: UUID()) }
        #expect(refusal.problems.map(\.cure) == [Self.cure])
        #expect("\(refusal)".contains("found_data: has the trigger counts_data"))
        #expect(try await file.read { try $0.textRows("SELECT * FROM sqlite_master") } == before)
        // The program goes on in the file, as before.
        try await file.write { try $0.execute(sql: "INSERT INTO note (text) VALUES ('a'); UPDATE note SET text = 'b'") }
        try await file.write { try $0.execute(sql: Self.cure) }
        let store = try EmbeddedStore(path: path, newEpoch: UUID())
        #expect(store.schema.tables.map(\.name).sorted() == ["counted", "note"])
        try await store.close()
        try file.close()
        try FileManager.default.removeItem(at: folder)
    }

    @Test func `a trigger that a program adds while the server runs ends no server, and no edit is lost`() async throws
    {
        let cluster = try Cluster(schema: Self.schema)
        let anna = try await cluster.device("anna")
        try await anna.engine.sync()
        try cluster.writeOutside(Self.trigger)
        try await anna.write("INSERT INTO note (text) VALUES ('of anna'), ('more of anna')")
        let error = await #expect(throws: TidemarkError.self) { try await anna.engine.sync() }
        #expect(error?.code == .unavailable)
        #expect(error?.fix.contains(Self.cure) == true)
        try cluster.writeOutside(Self.cure)
        try await cluster.converge(anna)
        #expect(try await cluster.rows(Self.notes) == ["first", "of anna", "more of anna"])
    }

    @Test func `a device with such a trigger says so before it writes, and syncs once the trigger is gone`()
        async throws
    {
        let cluster = try Cluster(schema: Self.schema)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.engine.sync()
        try await anna.write("INSERT INTO note (text) VALUES ('of anna')")
        try anna.writeOutside(Self.trigger)
        try await ben.write("INSERT INTO note (text) VALUES ('of ben')")
        try await ben.engine.sync()
        let error = await #expect(throws: TidemarkError.self) { try await anna.engine.sync() }
        #expect(error?.code == .unsyncableSchema)
        #expect(error?.fix.contains(Self.cure) == true)
        #expect(try await anna.database.read { try SchemaReport($0) }.problems.count == 1)
        #expect(try await anna.rows(Self.notes) == ["first", "of anna"])
        try anna.writeOutside(Self.cure)
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows("SELECT count(*) FROM note") == ["3"])
    }
}
