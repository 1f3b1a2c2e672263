import Foundation
import GRDB
import Synchronization
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// A snapshot that is damaged or malicious: it is refused with a typed error, file and
/// outbox stay unchanged, and an honest one applies.
@Suite struct HostileSnapshotTests {
    /// The change of a valid snapshot.
    struct Harm: Sendable {
        let name: String
        let inflict: @Sendable (_ path: String) throws -> Void

        static func sql(_ name: String, _ sql: String) -> Harm {
            Harm(name: name) { try DatabaseQueue(path: $0).write { try $0.execute(sql: sql) } }
        }

        static func bytes(_ name: String, _ change: @escaping @Sendable (inout Data) -> Void) -> Harm {
            Harm(name: name) { path in
                var data = try Data(contentsOf: URL(filePath: path))
                change(&data)
                try data.write(to: URL(filePath: path))
            }
        }

        /// Replaces a text in the snapshot's schema.
        static func schema(_ name: String, _ old: String, _ new: String) -> Harm {
            Harm(name: name) { path in
                try DatabaseQueue(path: path).write { db in
                    try db.execute(
                        sql: "UPDATE tidemark_snapshot SET schema = replace(schema, ?, ?)", arguments: [old, new])
                    #expect(db.changesCount == 1)
                }
            }
        }
    }

    private static let harms: [Harm] = [
        .bytes("empty") { $0 = Data() }, .bytes("truncated to 100 bytes") { $0 = $0.prefix(100) },
        .bytes("truncated by half") { $0 = $0.prefix($0.count / 2) },
        .bytes("a page") { $0 = Data("<html>Welcome</html>".utf8) },
        .bytes("zeroed from its second page") { $0.replaceSubrange(4_096..., with: Data(count: $0.count - 4_096)) },
        .sql("with a view", "CREATE VIEW v AS SELECT * FROM teams"),
        .sql("with a view for a table", "ALTER TABLE teams RENAME TO t; CREATE VIEW teams AS SELECT * FROM t"),
        .sql("with a trigger", "CREATE TRIGGER x AFTER INSERT ON teams BEGIN DELETE FROM players; END"),
        .sql("with an index", "CREATE INDEX x ON teams (name)"),
        .sql("with a virtual table", "CREATE VIRTUAL TABLE x USING fts5(y)"),
        .sql("with a computed column", "DROP TABLE teams; CREATE TABLE teams (id, name AS (hex(zeroblob(id))))"),
        .sql("without a table", "DROP TABLE players"),
        .sql("without a column", "ALTER TABLE players DROP COLUMN goals"),
        .sql("without a header", "DROP TABLE tidemark_snapshot"),
        .sql("with an empty header", "DELETE FROM tidemark_snapshot"),
        .sql("with half a header", "ALTER TABLE tidemark_snapshot DROP COLUMN epoch"),
        .sql("of another format", "UPDATE tidemark_snapshot SET format = 2"),
        .sql("of a format in words", "UPDATE tidemark_snapshot SET format = 'x'"),
        .sql("of another zone", "UPDATE tidemark_snapshot SET zone = 'other'"),
        .sql("of a zone that is a number", "UPDATE tidemark_snapshot SET zone = 7"),
        .sql("of no history", "UPDATE tidemark_snapshot SET epoch = NULL"),
        .sql("of revision -1", "UPDATE tidemark_snapshot SET revision = -1"),
        .sql("of revision Int64.max", "UPDATE tidemark_snapshot SET revision = 9223372036854775807"),
        .sql("of revision 1e300", "UPDATE tidemark_snapshot SET revision = 1e300"),
        .sql("of a revision in words", "UPDATE tidemark_snapshot SET revision = 'x'"),
        .sql("of a fingerprint in figures", "UPDATE tidemark_snapshot SET fingerprint = 5"),
        .sql("since a revision in words", "UPDATE tidemark_snapshot SET since = 'x'"),
        .sql("of a time in words", "UPDATE tidemark_snapshot SET time = 'x'"),
        .sql("with no schema", "UPDATE tidemark_snapshot SET schema = NULL"),
        .sql("with a schema that is no JSON", "UPDATE tidemark_snapshot SET schema = 'x'"),
        .schema("with a second statement", "NOT NULL)", "NOT NULL); DROP TABLE players"),
        .schema("with a statement of another kind", "CREATE TABLE teams", "ATTACH 'x' AS"),
        .schema(
            "with a table that never ends", "CREATE TABLE tags (name TEXT PRIMARY KEY, colour TEXT)",
            "CREATE TABLE tags AS WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i+1 FROM n) SELECT i FROM n"),
        .schema("with a table that cannot be synced", "name TEXT PRIMARY KEY, colour", "rowid, oid, _rowid_"),
        .sql("with a reference to nothing", "UPDATE players SET team_id = 777"),
        .sql("with NULL where there can be none", "UPDATE teams SET name = NULL"),
        .sql("with a record twice", "INSERT INTO teams SELECT * FROM teams"),
        .sql("with an id that is text", "UPDATE tags SET name = NULL; UPDATE players SET id = 'x'"),
        .sql("with a negative id", "INSERT INTO teams VALUES (-10, 'x')"),
        .sql("with an id of the reserved region", "INSERT INTO teams VALUES (4503599627370497, 'x')"),
    ]

    @Test func `rules 10 22, case 76: a hostile snapshot is refused, and an honest one applies`() async throws {
        let scene = try await Scene()
        let before = try await scene.everything()
        for harm in Self.harms {
            let error = await Self.sync(scene, harm)
            #expect(error != nil, "\(harm.name): taken")
            #expect(error?.code == .invalidResponse || error?.code == .schemaMismatch, "\(harm.name): \(error as Any)")
            #expect(try await scene.everything() == before, "\(harm.name)")
        }
        // An honest one, requested in the same way.
        #expect(await Self.sync(scene, Harm(name: "none") { _ in }) == nil)
        try await scene.expectGoodEnd()
    }

    @Test func `rules 10 22, case 76: join with a hostile snapshot leaves no file`() async throws {
        let scene = try await Scene()
        let path = scene.cluster.folder.appendingPathComponent("new.sqlite").path
        for harm in Self.harms {
            let way = HarmfulTransport(scene.anna.transport, harm)
            let join = DeviceFileJoin(transport: way, server: "http://cluster.test")
            await #expect(throws: TidemarkError.self, "\(harm.name)") { _ = try await join.join(path: path) }
            let remaining = try FileManager.default.contentsOfDirectory(atPath: scene.cluster.folder.path)
            #expect(!remaining.contains { $0.hasPrefix("new.sqlite") }, "\(harm.name): \(remaining)")
        }
    }

    @Test func `rule 22, case 76: flipped bits in a snapshot crash nothing and keep the outbox`() async throws {
        var random = SeededGenerator(seed: 76)
        let scene = try await Scene()
        let waiting = try await scene.outbox()
        var refused = 0
        for number in 1...150 {
            let seed = random.next()
            let harm = Harm.bytes("flip \(number)") { data in
                var random = SeededGenerator(seed: seed)
                for _ in 0..<Int.random(in: 1...4, using: &random) {
                    let at = Int.random(in: 0..<data.count, using: &random)
                    data[at] ^= 1 << UInt8.random(in: 0..<8, using: &random)
                }
            }
            // Tests only the snapshot: the sync after it never reaches the server.
            if await Self.sync(scene, harm, thenCut: true)?.code != .unreachable { refused += 1 }
            let pending = try await scene.outbox().filter { !$0.hasPrefix("parked") }
            #expect(pending == waiting, "flip \(number)")
            #expect(try await scene.anna.rows("PRAGMA integrity_check") == ["ok"], "flip \(number)")
        }
        #expect(await Self.sync(scene, Harm(name: "none") { _ in }) == nil)
        try await scene.expectGoodEnd()
        Report.line("150 snapshots with flipped bits: \(refused) refused, \(150 - refused) could be true")
    }

    /// Syncs Anna's file with a server that demands a snapshot first.
    private static func sync(_ scene: Scene, _ harm: Harm, thenCut: Bool = false) async -> TidemarkError? {
        do {
            let way = HarmfulTransport(scene.anna.transport, harm, thenCut: thenCut)
            let engine = try await SyncEngine(scene.anna.database, server: "http://cluster.test", transport: way)
            try await engine.sync()
            return nil
        } catch {
            #expect(error is TidemarkError, "\(harm.name): \(error)")
            return error as? TidemarkError
        }
    }
}

/// A transport that demands a snapshot, and damages it.
private final class HarmfulTransport: ForwardingTransport {
    let real: InProcessTransport
    private let harm: HostileSnapshotTests.Harm
    private let thenCut: Bool
    private let hasAsked = Mutex(false)

    init(_ real: InProcessTransport, _ harm: HostileSnapshotTests.Harm, thenCut: Bool = false) {
        self.real = real
        self.harm = harm
        self.thenCut = thenCut
    }

    func sync(zone: String, body: [UInt8]) async throws -> [UInt8] {
        let isFirst = hasAsked.withLock { flag in
            defer { flag = true }
            return !flag
        }
        if isFirst { throw TidemarkError(.snapshotRequired, "The log is gone.", fix: "Start anew.") }
        if thenCut { throw FaultPlan.lost }
        return try await real.sync(zone: zone, body: body)
    }

    func snapshot(
        zone: String, since base: DeltaBase?, to path: String,
        progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void
    ) async throws {
        try await real.snapshot(zone: zone, since: base, to: path, progress: progress)
        try harm.inflict(path)
    }
}
