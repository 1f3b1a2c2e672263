import Foundation
import GRDB
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkPostgres
import TidemarkTestSupport

/// An operator with many zones in one database.
@Suite struct ManyZonesTests {
    private static let zones = ["main"] + (1...200).map { "zone\($0)" }
    private static let create = #"{"item":{"create":["a"],"attributes":{"a":{"text":"x","count":1}}}}"#

    @Test func `a rename, a column and policies reach two hundred zones, and their histories go on`() async throws {
        let zone = try await PostgresZone(
            schema: "CREATE TABLE item (id TEXT PRIMARY KEY, text TEXT, count INTEGER)", zones: Self.zones)
        for name in Self.zones { #expect(try await zone.sync(at: 0, zone: name, Self.create).revisions == [1]) }
        let epochs = try await zone.column("SELECT epoch FROM tidemark.zone ORDER BY zone")
        try await zone.database.writeOutside(
            "ALTER TABLE item RENAME COLUMN text TO body; ALTER TABLE item ADD COLUMN colour text DEFAULT 'red'")
        var options = PostgresStore.Options(address: zone.database.address, newEpoch: UUID())
        options.policies = ["item": .columns, "item.count": .add]
        let node = try await PostgresStore(options)
        #expect(node.policyChanges.count == 2)
        for name in Self.zones {
            let old =
                #"{"maxRevision":1,"changeSets":[{"item":{"update":["a"],"attributes":{"a":{"text":"z"}}}}]}"#
            let answer = try Answer(try await node.sync(.local(name), body: Array(old.utf8)))
            #expect(answer.changeSets.last?.isConflict == false, "\(name)")
        }
        #expect(try await zone.column("SELECT DISTINCT body || colour FROM item") == ["zred"])
        #expect(try await zone.column("SELECT epoch FROM tidemark.zone ORDER BY zone") == epochs)
        await node.close()
    }

    @Test(arguments: [".", "..", "~", "", "z_abc"])
    func `a zone gets no name that no client can reach`(name: String) async throws {
        let zone = try await PostgresZone()
        var options = PostgresStore.Options(address: zone.database.address, newEpoch: UUID())
        options.zones = [name]
        let error = await #expect(throws: TidemarkError.self) { _ = try await PostgresStore(options) }
        #expect(error?.code == .invalidArgument)
        #expect(try await zone.column("SELECT zone FROM tidemark.zone") == ["main"])
    }

    @Test func `all problems of a file are named in one round`() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "tidemark-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        // A folder left behind in the system's temporary folder harms no other test.
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appending(path: "file.sqlite").path
        let file = try DatabaseQueue(path: path)
        try await file.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE nokey (a TEXT, b TEXT);
                    CREATE TABLE untyped (id INTEGER PRIMARY KEY, x);
                    CREATE TABLE computed (id INTEGER PRIMARY KEY, d TEXT DEFAULT (hex(randomblob(4))));
                    """
            )
        }
        try file.close()
        var options = PostgresStore.Options(address: try await TestDatabase().address, newEpoch: UUID())
        options.filePath = path
        let error = await #expect(throws: UnsyncableSchema.self) { _ = try await PostgresStore(options) }
        #expect(Set(error?.problems.map(\.table) ?? []) == ["nokey", "untyped", "computed"])
    }
}
