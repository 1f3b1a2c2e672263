import GRDB
import Synchronization
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// The zone drops a table while a device has unsent edits of it.
@Suite struct DroppedTableTests {
    private static let schema = """
        CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
        CREATE TABLE tags (name TEXT PRIMARY KEY, colour TEXT);
        """
    private static let seed = """
        INSERT INTO notes (text) VALUES ('milk');
        INSERT INTO tags VALUES ('home', 'red')
        """

    /// Syncs a device while the zone drops the tags and the app writes.
    private static func sync(_ edits: String...) async throws -> (cluster: Cluster, anna: TestDevice) {
        let cluster = try Cluster(schema: schema, seed: seed)
        let anna = try await cluster.device("anna")
        let engine = try await SyncEngine(
            anna.database,
            server: "http://cluster.test",
            transport: Overtaken(anna.transport) {
                try cluster.writeOutside("DROP TABLE tags")
                for edit in edits { try await anna.write(edit) }
            }
        )
        try await engine.sync()
        return (cluster, anna)
    }

    @Test func `rule 11: an edit in flight to a dropped table is parked, others continue`() async throws {
        let (cluster, anna) = try await Self.sync(
            "INSERT INTO tags VALUES ('urgent', 'blue')", "INSERT INTO notes (text) VALUES ('rake')")
        #expect(try await cluster.rows("SELECT text FROM notes ORDER BY id") == ["milk", "rake"])
        let conflicts = try await anna.engine.conflicts()
        #expect(conflicts.map(\.reasons.first?.rule) == ["serverBehind"])
        #expect(conflicts.flatMap(\.records).map(\.key) == [#""urgent""#])
        #expect(try await anna.engine.status().pendingChangeSets == 0)
        #expect(try await anna.rows("SELECT count(*) FROM tags") == ["2"])
    }

    @Test func `rule 2: edits of the same transaction are parked with it`() async throws {
        let (cluster, anna) = try await Self.sync(
            "UPDATE notes SET text = 'oat milk'; UPDATE tags SET colour = 'blue'",
            "INSERT INTO notes (text) VALUES ('rake')")
        #expect(try await cluster.rows("SELECT text FROM notes ORDER BY id") == ["milk", "rake"])
        let records = try await anna.engine.conflicts().flatMap(\.records)
        #expect(records.map(\.table) == ["notes", "tags"])
        #expect(try await anna.engine.status().pendingChangeSets == 0)
        #expect(try await anna.rows("SELECT text FROM notes ORDER BY id") == ["milk", "rake"])
    }

    /// A zone in which devices synced without a table, and wrote to it.
    private static func dropped(_ edits: String) async throws -> (Cluster, TestDevice, TestDevice) {
        let cluster = try Cluster(schema: schema, seed: "INSERT INTO notes (text) VALUES ('milk'), ('bread'), ('salt')")
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try cluster.writeOutside("DROP TABLE notes")
        for device in [anna, ben] { try await device.engine.sync() }
        try await anna.write(edits)
        for device in [anna, ben] { try await device.engine.sync() }
        return (cluster, anna, ben)
    }

    private static let again = "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL);"

    @Test func `after a table was recreated the server's rows count, and apps' edits are judged`() async throws {
        let (cluster, anna, ben) = try await Self.dropped(
            """
            UPDATE notes SET text = 'oat milk' WHERE id = 1; UPDATE notes SET text = 'toast' WHERE id = 2;
            INSERT INTO notes (text) VALUES ('rake')
            """
        )
        try cluster.writeOutside(Self.again + "INSERT INTO notes VALUES (1, 'milk'), (2, 'rye'), (7, 'new')")
        try await cluster.converge(ben, anna, ben)
        // Without boundaries these writes are one change set until it is divided.
        let whole = try #require(try await anna.engine.conflicts().first)
        #expect(whole.reasons.map(\.key) == ["2"] && whole.records.count == 3)
        _ = try await anna.engine.divide(whole.id)
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows("SELECT text FROM notes ORDER BY id") == ["oat milk", "rye", "new", "rake"])
        #expect(try await anna.engine.conflicts().flatMap(\.records).map(\.key) == ["2"])
        #expect(try await ben.engine.conflicts().isEmpty)
    }

    @Test func `a table recreated empty gets no rows from devices that had the old ones`() async throws {
        let (cluster, anna, ben) = try await Self.dropped("DELETE FROM notes WHERE id = 1")
        try cluster.writeOutside(Self.again + "INSERT INTO notes VALUES (1, 'milk')")
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows("SELECT id, text FROM notes") == ["1|milk"])
        #expect(try await anna.engine.conflicts().isEmpty)
    }

    @Test func `an app that recreates the table too deletes no row of the zone`() async throws {
        let (cluster, anna, ben) = try await Self.dropped("SELECT 1")
        try anna.writeOutside("DROP TABLE notes; \(Self.again)")
        try cluster.writeOutside(Self.again + "INSERT INTO notes VALUES (1, 'milk'), (2, 'bread'), (3, 'salt')")
        let later = try await anna.reopened()
        try await cluster.converge(later, ben)
        #expect(try await cluster.rows("SELECT count(*) FROM notes") == ["3"])
    }
}

/// A transport that runs code before the first request arrives.
private final class Overtaken: ForwardingTransport {
    let real: InProcessTransport
    private let meanwhile: @Sendable () async throws -> Void
    private let hasAsked = Mutex(false)

    init(_ real: InProcessTransport, _ meanwhile: @escaping @Sendable () async throws -> Void) {
        self.real = real
        self.meanwhile = meanwhile
    }

    func sync(zone: String, body: [UInt8]) async throws -> [UInt8] {
        let isFirst = hasAsked.withLock { flag in
            defer { flag = true }
            return !flag
        }
        if isFirst { try await meanwhile() }
        return try await real.sync(zone: zone, body: body)
    }
}
