import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkEmbedded
import TidemarkTestSupport

/// A collation that only the program has.
@Suite struct CollationTests {
    private static func file(_ sql: String) throws -> String {
        let folder = FileManager.default.temporaryDirectory.appending(path: "tidemark-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let path = folder.appending(path: "zone.sqlite").path
        try DatabaseQueue(path: path).write { db in
            db.add(collation: DatabaseCollation("unicase") { $0.lowercased().compare($1.lowercased()) })
            try db.execute(sql: sql)
        }
        return path
    }

    private static let tags = "CREATE TABLE tag (name TEXT NOT NULL PRIMARY KEY COLLATE unicase, usn INTEGER)"

    @Test(arguments: [tags, tags + " WITHOUT ROWID", "CREATE TABLE tag (id INTEGER PRIMARY KEY, name COLLATE unicase)"])
    func `a collation of the program's own is named at adoption, with its table`(sql: String) throws {
        let path = try Self.file(sql)
        let unsyncable = try #require(throws: UnsyncableSchema.self) { try EmbeddedStore(path: path, newEpoch: UUID()) }
        #expect("\(unsyncable)".contains("tag: uses the collation unicase"))
        #expect("\(unsyncable)".contains("--collation unicase="))
    }

    @Test(arguments: [tags, tags + " WITHOUT ROWID"])
    func `a declared collation stands for it at the server and on devices, also after a restart`(sql: String)
        async throws
    {
        let path = try Self.file(sql + "; INSERT INTO tag VALUES ('b', 1), ('A', 2)")
        let first = try EmbeddedStore(
            path: path, newEpoch: UUID(), objects: ObjectDeclarations(collations: ["unicase": "NOCASE"]))
        try await first.close()
        let store = try EmbeddedStore(path: path, newEpoch: UUID())
        let transport = InProcessTransport(to: store)
        let device = path + "-device"
        _ = try await DeviceFileJoin(transport: transport, server: "http://cluster.test").join(path: device)
        let database = try DatabaseQueue(path: device)
        let engine = try await SyncEngine(database, server: "http://cluster.test", transport: transport)
        try await database.write {
            try $0.execute(sql: "INSERT INTO tag VALUES ('C', 3); DELETE FROM tag WHERE name = 'B'")
        }
        try await engine.sync()
        #expect(try await store.digest(zone: "main").tables.map(\.rows) == [2])
        #expect(
            try await database.read { try String.fetchAll($0, sql: "SELECT name FROM tag ORDER BY name") } == [
                "A", "C",
            ]
        )
        try await store.close()
    }

    @Test func `a collation that orders an index otherwise is refused before it spoils the index`() throws {
        let path = try Self.file(Self.tags + "; INSERT INTO tag VALUES ('B', 1), ('a', 2)")
        let error = try #require(throws: TidemarkError.self) {
            try EmbeddedStore(
                path: path, newEpoch: UUID(), objects: ObjectDeclarations(collations: ["unicase": "BINARY"]))
        }
        #expect(error.code == .unusableFile)
        #expect(error.message.contains("unicase=BINARY"))
    }
}
