import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkTestSupport

/// Rule 37: a file shipped with an app: the rows of a revision, without a device identity until it
/// is opened.
@Suite struct ShippedFileTests {
    private static let schema = "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)"
    private static let seed = "INSERT INTO note (text) VALUES ('milk'), ('bread')"

    private static func ship(_ cluster: Cluster) async throws -> String {
        let path = cluster.folder.appendingPathComponent("shipped.sqlite").path
        let status = try await DeviceFileJoin(
            transport: InProcessTransport(to: cluster.service), server: "http://cluster.test"
        ).ship(path: path)
        #expect(status.revision == 1)
        return path
    }

    /// A copy of the file with an engine on it, as on the first start of an app.
    private static func start(_ name: String, _ shipped: String, _ cluster: Cluster) async throws -> (
        DatabasePool, SyncEngine, InProcessTransport
    ) {
        let path = cluster.folder.appendingPathComponent(name).path
        try FileManager.default.copyItem(atPath: shipped, toPath: path)
        let file = try DatabasePool(path: path)
        let way = InProcessTransport(to: cluster.service)
        let engine = try await SyncEngine(file, server: "http://cluster.test", transport: way)
        return (file, engine, way)
    }

    @Test func `A13: every copy becomes a device of its own, and fetches later revisions only`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let shipped = try await Self.ship(cluster)
        try cluster.writeOutside("INSERT INTO note (text) VALUES ('salt')")
        let (anna, annas, way) = try await Self.start("anna.sqlite", shipped, cluster)
        let (ben, bens, _) = try await Self.start("ben.sqlite", shipped, cluster)
        // Before any request, the rows are there and can be edited.
        try await anna.write { try $0.execute(sql: "UPDATE note SET text = 'rye' WHERE id = 2") }
        try await ben.write { try $0.execute(sql: "INSERT INTO note (text) VALUES ('tea')") }
        for engine in [annas, bens, annas] { try await engine.sync() }
        #expect(way.faults.requests.first?.contains(#""maxRevision":1,"#) == true)
        let texts = "SELECT group_concat(text, ' ') FROM (SELECT text FROM note ORDER BY text)"
        for file in [anna, ben] {
            #expect(try await file.read { try String.fetchOne($0, sql: texts) } == "milk rye salt tea")
        }
        let ids = try await [anna, ben].asyncMap { file in
            try await file.read { try String.fetchOne($0, sql: "SELECT device FROM tidemark_device") }
        }
        #expect(ids[0] != ids[1] && ids.allSatisfy { $0?.count == 36 })
    }

    @Test func `A13: the file is complete on its own, on a read-only disk`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let shipped = try await Self.ship(cluster)
        let names = try FileManager.default.contentsOfDirectory(atPath: cluster.folder.path)
        #expect(names.filter { $0.hasPrefix("shipped") } == ["shipped.sqlite"])
        var configuration = Configuration()
        configuration.readonly = true
        let file = try DatabaseQueue(path: shipped, configuration: configuration)
        let rows = try await file.read { db in
            try (
                String.fetchOne(db, sql: "PRAGMA journal_mode"), String.fetchOne(db, sql: "PRAGMA integrity_check"),
                String.fetchOne(db, sql: "SELECT device FROM tidemark_device"),
                Int.fetchOne(db, sql: "PRAGMA freelist_count")
            )
        }
        #expect(rows == ("delete", "ok", "", 0))
    }
}

extension Array where Element: Sendable {
    fileprivate func asyncMap<Value>(_ body: (Element) async throws -> Value) async throws -> [Value] {
        var values: [Value] = []
        for element in self { values.append(try await body(element)) }
        return values
    }
}
