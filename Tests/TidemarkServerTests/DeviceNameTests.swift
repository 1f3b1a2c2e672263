import Foundation
import GRDB
import NIOHTTP1
import Testing
import Tidemark
import TidemarkCore
import TidemarkEngine
import TidemarkTestSupport

/// A device tells its name with each request, for the server's operators.
@Suite(.timeLimit(.minutes(30))) struct DeviceNameTests {
    private static let schema = """
        CREATE TABLE notes (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT);
        INSERT INTO notes (text) VALUES ('first');
        """

    @Test func `a named device syncs; the server writes its name when it stops, and a later engine keeps it`()
        async throws
    {
        let cluster = try Cluster(schema: Self.schema)
        let path = cluster.folder.appending(path: "phone.sqlite").path
        try await TestServer.run(cluster.service) { server in
            for name in ["Anna’s iPhone", nil] {
                let database = try DatabaseQueue(path: path)
                try await database.write {
                    try $0.execute(
                        sql: "CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT)")
                }
                let engine = try await SyncEngine(database, server: server.url, name: name)
                try await engine.sync()
                #expect(cluster.store.contacts.take().map(\.name) == ["Anna’s iPhone"])
                try await engine.sync()
                await engine.stop()
                try database.close()
            }
            #expect(try await cluster.rows("SELECT name FROM tidemark_contact").isEmpty)
        }
        #expect(try await cluster.rows("SELECT name, revision FROM tidemark_contact") == ["Anna’s iPhone|1"])
    }

    @Test func `a name that no device can have is refused before the file changes`() async throws {
        for name in ["", String(repeating: "a", count: 101), "a\nb"] {
            let database = try DatabaseQueue()
            let error = await #expect(throws: TidemarkError.self) {
                try await SyncEngine(database, server: "http://127.0.0.1:1", name: name)
            }
            #expect(error?.code == .invalidArgument)
            #expect(try await database.read { try !$0.tableExists("tidemark_device") })
        }
    }

    @Test func `a client states an unusable name; its request is answered and it has no name`() async throws {
        let cluster = try Cluster(schema: Self.schema)
        try await TestServer.run(cluster.service) { server in
            let names = [
                ("Anna%27s%20iPhone", "Anna's iPhone"), ("%FF", nil), (String(repeating: "a", count: 101), nil),
                ("a%0Ab", nil), ("", nil),
            ]
            for (header, name) in names {
                let answer = try await server.send(
                    .POST, "/sync", headers: HTTPHeaders([("Tidemark-Device-Name", header)]),
                    body: .bytes(Array(#"{"maxRevision":1,"device":"phone","changeSets":[]}"#.utf8)))
                #expect(answer.status == 200)
                #expect(cluster.store.contacts.take().map(\.name) == [name], "\(header)")
            }
        }
    }
}
