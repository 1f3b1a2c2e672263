import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// A11: the progress of the first download.
@Suite(.timeLimit(.minutes(30))) struct DownloadProgressTests {
    private static let schema = """
        CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT);
        CREATE TABLE tags (id INTEGER PRIMARY KEY, name TEXT);
        """
    private static let seed = """
        INSERT INTO notes WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
            SELECT i, hex(randomblob(50)) FROM n;
        INSERT INTO tags VALUES (1, 'home'), (2, 'work');
        """

    /// An app's database with the zone's tables and no rows.
    private static func app(of cluster: Cluster, over transport: any Transport) async throws
        -> (database: DatabasePool, sync: SyncEngine)
    {
        let database = try DatabasePool(path: cluster.folder.appendingPathComponent("\(UUID()).sqlite").path)
        // As GRDB's autoIncrementedPrimaryKey declares it.
        let tables = schema.replacing("PRIMARY KEY", with: "PRIMARY KEY AUTOINCREMENT")
        try await database.write { try $0.execute(sql: tables) }
        return (database, try await SyncEngine(database, server: "http://cluster.test", transport: transport))
    }

    @Test func `the progress grows from 0, and is 1 only when the app sees the rows`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let (database, sync) = try await Self.app(of: cluster, over: InProcessTransport(to: cluster.service))
        let progress = sync.progress
        let round = Task { try await sync.sync() }
        var fractions: [Double] = []
        for await step in progress {
            if step.fraction == 1 {
                #expect(step.stage == .finished)
                #expect(try await database.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM notes") } == 3_000)
            }
            fractions.append(step.fraction)
        }
        try await round.value
        #expect(fractions == fractions.sorted())
        #expect(fractions.last == 1)
        // A file that has the rows says so at once.
        #expect(await sync.progress.first { _ in true }?.stage == .finished)
    }

    @Test func `a download that begins anew does not go back`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let (_, sync) = try await Self.app(of: cluster, over: Restarting(real: InProcessTransport(to: cluster.service)))
        let seen = Task { await sync.progress.reduce(into: [Double]()) { $0.append($1.fraction) } }
        try await sync.sync()
        let fractions = await seen.value
        #expect(fractions == fractions.sorted())
        #expect(fractions.last == 1)
    }

    @Test func `the first sync can be awaited, without the background sync, and with a limit`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let transport = InProcessTransport(to: cluster.service)
        let (database, sync) = try await Self.app(of: cluster, over: Unreachable(real: transport))
        await #expect(throws: WaitError.notYet(pending: 0)) {
            try await sync.waitForFirstSync(within: .milliseconds(50))
        }
        let (other, online) = try await Self.app(of: cluster, over: transport)
        try await online.waitForFirstSync()
        #expect(try await other.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM notes") } == 3_000)
        #expect(try await database.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM notes") } == 0)
        // A file that has the rows does not wait.
        try await online.waitForFirstSync(within: .zero)
    }

    @Test func `the wait for the first sync ends when new records draw permanent ids, not with the rows`() async throws
    {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let transport = InProcessTransport(to: cluster.service)
        let way = EndingTransport(transport)
        way.endsAfterSnapshot = true
        let (database, sync) = try await Self.app(of: cluster, over: way)
        await #expect(throws: TidemarkError.self) { try await sync.sync() }
        #expect(try await database.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM notes") } == 3_000)
        await #expect(throws: WaitError.notYet(pending: 0)) { try await sync.waitForFirstSync(within: .zero) }

        let online = try await SyncEngine(database, server: "http://cluster.test", transport: transport)
        try await online.waitForFirstSync()
        let id = try await database.write { db in
            try db.execute(sql: "INSERT INTO notes (text) VALUES ('new')")
            return db.lastInsertedRowID
        }
        #expect(!TemporaryID.isTemporary(id))
        try await online.sync()
        #expect(try await cluster.rows("SELECT id FROM notes WHERE text = 'new'") == ["\(id)"])
    }
}

/// A download whose bytes begin anew half-way.
private struct Restarting: ForwardingTransport {
    let real: InProcessTransport

    func snapshot(
        zone: String, since base: DeltaBase?, to path: String,
        progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void
    ) async throws {
        for bytes in [0, 50, 90, 0, 10, 100] as [Int64] { progress(bytes, 100) }
        try await real.snapshot(zone: zone, since: base, to: path, progress: progress)
    }
}

/// A server that cannot be reached.
private struct Unreachable: ForwardingTransport {
    let real: InProcessTransport

    func sync(zone: String, body: [UInt8]) async throws -> [UInt8] { throw FaultPlan.lost }
    func schema(zone: String) async throws -> [UInt8] { throw FaultPlan.lost }
    func snapshot(
        zone: String, since base: DeltaBase?, to path: String,
        progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void
    ) async throws { throw FaultPlan.lost }
}
