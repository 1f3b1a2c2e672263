import Foundation
import GRDB
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkGzip

/// Rule 36: a delta holds the changes since a revision, and both stores build the same one.
@Suite struct DeltaFileTests {
    private static let schema = """
        CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT);
        CREATE TABLE mark (kind TEXT, day INTEGER, size REAL, PRIMARY KEY (kind, day));
        INSERT INTO note VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e'), (6, 'f'), (7, 'g');
        INSERT INTO mark VALUES ('x', 1, 0.5), ('x', 2, 1.5), ('"y"', 3, 2.5), ('z', 4, 3.5);
        """
    private static let first = """
        {"note":{"update":[1],"attributes":{"1":{"text":"new"}}},\
        "mark":{"delete":[["x",1]]}}
        """
    private static let second = """
        {"note":{"delete":[2],"create":[-1],"attributes":{"-1":{"text":"made"}}},\
        "mark":{"update":[["\\"y\\"",3]],"attributes":{"[\\"\\\\\\"y\\\\\\"\\",3]":{"size":7}}}}
        """

    /// The contents of a delta since a revision, a line a row; nil if it has all rows.
    private static func content(_ zone: Zone, since revision: Int64) async throws -> [String]? {
        let state = try await zone.sync(at: 1)
        let file = try await zone.service.snapshot(
            zone: "main",
            since: DeltaBase(epoch: try #require(state.epoch), revision: revision, schema: try #require(state.schema)))
        let plain = FileManager.default.temporaryDirectory.appending(path: "delta-\(UUID())").path
        try GzipFile.decompress(file.path, to: plain, bytesMax: 1 << 20)
        let lines = try await DatabaseQueue(path: plain).read { db in
            try String.fetchAll(
                db,
                sql: """
                    SELECT 'note ' || id || ' ' || quote(text) FROM note
                    UNION ALL SELECT 'mark ' || quote(kind) || day || ' ' || quote(size) FROM mark
                    """
            )
                + (file.since == nil
                    ? []
                    : try String.fetchAll(
                        db, sql: "SELECT 'gone ' || tbl || ' ' || key FROM tidemark_deleted ORDER BY 1"))
        }
        try FileManager.default.removeItem(atPath: plain)
        await zone.service.releaseSnapshot(file)
        #expect(file.since == nil || file.since == revision)
        return file.since == nil ? nil : lines
    }

    @Test(arguments: Store.all)
    func `F4: a delta holds the last state of each changed record, and the keys of deleted ones`(store: Store)
        async throws
    {
        let zone = try await Zone(store, Self.schema)
        #expect(try await zone.sync(at: 1, device: "a", Self.first).maxRevision == 2)
        #expect(try await zone.sync(at: 2, device: "a", Self.second).maxRevision == 3)
        #expect(try await Self.content(zone, since: 2) == ["note 8 'made'", "mark '\"y\"'3 7.0", "gone note 2"])
        #expect(
            try await Self.content(zone, since: 1) == [
                "note 1 'new'", "note 8 'made'", "mark '\"y\"'3 7.0", #"gone mark ["x",1]"#, "gone note 2",
            ]
        )
    }

    @Test(arguments: Store.all) func `for the latest base, a future base or other tables, the server sends all rows`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        #expect(try await zone.sync(at: 1, device: "a", Self.first).maxRevision == 2)
        #expect(try await Self.content(zone, since: 2) == nil)
        #expect(try await Self.content(zone, since: 9) == nil)
        // Before the adoption of the rows, all of them count as changed.
        #expect(try await Self.content(zone, since: 0) == nil)
    }

    @Test(arguments: Store.all)
    func `beyond the bound, delta clients are sent to the delta; others get change sets`(store: Store)
        async throws
    {
        var limits = Limits.standard
        limits.deltaBytesMin = 100
        let zone = try await Zone(store, Self.schema, limits: limits)
        #expect(try await zone.sync(at: 1, device: "a", Self.first).maxRevision == 2)
        let schema = try #require(try await zone.sync(at: 2).schema)
        let members = #""maxRevision":1,"schema":"\#(schema)","changeSets":[\#(Self.second)]"#
        let refusal = try await zone.refusal(of: #"{"delta":true,\#(members)}"#)
        #expect(refusal?.code == .snapshotRequired)
        #expect(try await zone.revision() == 2)
        #expect(try await zone.refusal(of: #"{"delta":1,\#(members)}"#)?.code == .malformedRequest)
        #expect(try await zone.sync("{\"delta\":true,\"limit\":9,\(members)}").maxRevision == 3)
        #expect(try await zone.sync("{\"delta\":false,\(members)}").changeSets.count == 3)
    }
}
