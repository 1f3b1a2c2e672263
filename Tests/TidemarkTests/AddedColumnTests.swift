import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkEmbedded
import TidemarkTestSupport

@Suite struct AddedColumnTests {
    @Test func `F1: values that a migration writes into its new column reach the server`() async throws {
        let cluster = try Cluster(
            schema: "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)",
            seed: "INSERT INTO notes VALUES (1, 'one'), (2, 'two')")
        let anna = try await cluster.device("anna")
        // The app's migration, before the engine sees the file again.
        try anna.writeOutside(
            "ALTER TABLE notes ADD COLUMN stars INTEGER DEFAULT 3; UPDATE notes SET stars = 5 WHERE id = 2")
        try cluster.writeOutside("ALTER TABLE notes ADD COLUMN stars INTEGER DEFAULT 3")
        let server = try EmbeddedStore(path: cluster.zonePath, newEpoch: UUID())
        let engine = try await SyncEngine(
            DatabasePool(path: anna.path), server: "http://cluster.test", transport: InProcessTransport(to: server))
        try await engine.sync()
        let rows = try await DatabaseQueue(path: cluster.zonePath).read { db in
            try String.fetchAll(db, sql: "SELECT id || ':' || stars FROM notes ORDER BY id")
        }
        #expect(rows == ["1:3", "2:5"])
    }

    @Test func `the text by which processes tell whether tables have changed has one order`() async throws {
        let columns = (1...9).map { "c\($0)" }
        let cluster = try Cluster(
            schema: """
                CREATE TABLE part (id INTEGER PRIMARY KEY, \(columns.map { "\($0) TEXT" }.joined(separator: ", ")));
                CREATE UNIQUE INDEX part_columns ON part (\(columns.reversed().joined(separator: ", ")))
                WHERE c1 IS NOT NULL;
                """,
            seed: ""
        )
        let anna = try await cluster.device("anna")
        // An unsorted set would stand like this in one process of 362,880.
        let stored = try await anna.rows("SELECT fitted_local -> '$[0].partiallyUnique' FROM tidemark_device")
        #expect(stored == ["[\(columns.map { "\"\($0)\"" }.joined(separator: ","))]"])
    }
}
