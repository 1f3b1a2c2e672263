import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// A11: an app learns which tables and records others changed, for instance the one that an editor shows.
@Suite(.timeLimit(.minutes(30))) struct RemoteChangesTests {
    private static let schema = """
        CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT);
        CREATE TABLE tags (name TEXT PRIMARY KEY, note TEXT);
        """
    private static let seed = """
        INSERT INTO notes VALUES (1, 'milk'), (2, 'bread'), (3, 'salt');
        WITH RECURSIVE n (i) AS (SELECT 4 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
        INSERT INTO notes SELECT i, 'note ' || i FROM n;
        INSERT INTO tags VALUES ('red', 'a');
        """

    private static func pair(limits: Limits = .standard) async throws
        -> (cluster: Cluster, anna: TestDevice, ben: TestDevice)
    {
        let cluster = try Cluster(schema: schema, seed: seed, limits: limits)
        return (cluster, try await cluster.device("anna"), try await cluster.device("ben"))
    }

    /// The changes that a sync takes over.
    private static func changes(at device: TestDevice) async throws -> [RemoteChanges] {
        try await device.events { try await device.engine.sync() }.compactMap {
            if case .changed(let changes) = $0 { changes } else { nil }
        }
    }

    @Test func `A11: the open record's change and deletion are told apart, and other records are left alone`()
        async throws
    {
        let (_, anna, ben) = try await Self.pair()
        try await anna.write("UPDATE notes SET text = 'oat milk' WHERE id = 1; DELETE FROM notes WHERE id = 2")
        try await anna.engine.sync()
        let changes = try #require(try await Self.changes(at: ben).first)
        #expect(changes.revision == 2)
        #expect(changes.records == 2)
        #expect(changes.tables.keys.sorted() == ["notes"])
        #expect(changes.change(of: RecordName("notes", 1)) == .written)
        #expect(changes.change(of: RecordName("notes", 2)) == .deleted)
        #expect(changes.change(of: RecordName("notes", 3)) == nil)
        #expect(changes.change(of: RecordName("tags", "red")) == nil)
    }

    @Test func `A11: of several changes of a record, the last one counts`() async throws {
        let (_, anna, ben) = try await Self.pair()
        for sql in [
            "DELETE FROM tags WHERE name = 'red'", "INSERT INTO tags VALUES ('red', 'again')",
            "INSERT INTO tags VALUES ('blue', 'b')", "DELETE FROM tags WHERE name = 'blue'",
        ] {
            try await anna.write(sql)
            try await anna.engine.sync()
        }
        let changes = try #require(try await Self.changes(at: ben).first)
        #expect(changes.change(of: RecordName("tags", "red")) == .written)
        #expect(changes.change(of: RecordName("tags", "blue")) == .deleted)
    }

    @Test func `A11: own changes are no changes of others`() async throws {
        let (_, anna, _) = try await Self.pair()
        try await anna.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        #expect(try await Self.changes(at: anna) == [])
    }

    @Test func `A11: a delta of a device that is far behind names its records, too`() async throws {
        var limits = Limits.standard
        limits.deltaBytesMin = 1
        let (_, anna, ben) = try await Self.pair(limits: limits)
        for number in 1...5 {
            try await anna.write("UPDATE notes SET text = '\(number)' WHERE id = 1")
            try await anna.engine.sync()
        }
        try await anna.write("DELETE FROM notes WHERE id = 3")
        try await anna.engine.sync()
        let changes = try await Self.changes(at: ben)
        #expect(changes.count == 1)
        #expect(changes.first?.change(of: RecordName("notes", 1)) == .written)
        #expect(changes.first?.change(of: RecordName("notes", 3)) == .deleted)
    }

    @Test
    func `A11: beyond a thousand records an event names the tables only, and any record of them may have changed`()
        async throws
    {
        let (_, anna, ben) = try await Self.pair()
        try await anna.write(
            """
            WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(RemoteChanges.namesMax + 1))
            INSERT INTO tags SELECT 'tag ' || i, NULL FROM n
            """
        )
        try await anna.engine.sync()
        let changes = try #require(try await Self.changes(at: ben).first)
        #expect(changes.records == RemoteChanges.namesMax + 1)
        #expect(changes.change(of: RecordName("tags", "red")) == .unknown)
        #expect(changes.change(of: RecordName("notes", 1)) == nil)
    }
}
