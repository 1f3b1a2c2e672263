import GRDB
import Synchronization
import Testing
import Tidemark
import TidemarkCore
import TidemarkEmbedded
import TidemarkTestSupport

/// The app's merge function: it gets base, mine and theirs, and resolves the conflict.
@Suite struct MergeTests {
    private static let schema = """
        CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT, done INTEGER NOT NULL DEFAULT 0);
        CREATE TABLE tags (name TEXT PRIMARY KEY, colour TEXT, uses INTEGER NOT NULL DEFAULT 0);
        """
    private static let seed = "INSERT INTO notes (text) VALUES ('milk'), ('bread')"

    /// Joins both texts; a number grows by the sum of both additions.
    private static let joined: MergeFunction = { record in
        var row = record.theirs
        for (column, value) in record.mine where value != record.base?[column] {
            let theirs = record.theirs[column] ?? .null
            guard theirs != record.base?[column] else {
                row[column] = value
                continue
            }
            let texts = [theirs, value].compactMap { String.fromDatabaseValue($0) }
            row[column] = texts.joined(separator: " + ").databaseValue
        }
        return row
    }

    private static func pair(_ function: MergeFunction? = joined, tables: [String] = ["notes", "tags"]) async throws
        -> (cluster: Cluster, anna: TestDevice, ben: TestDevice)
    {
        let cluster = try Cluster(schema: schema, seed: seed)
        let anna = try await cluster.device("anna")
        let merges = function.map { function in tables.map { TableMerge($0, function) } }
        return (cluster, anna, try await cluster.device("ben", merges: merges ?? []))
    }

    @Test func `B14: the app's merge is a new change set in the same sync`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        try await ben.write("UPDATE notes SET text = 'oat milk', done = 1 WHERE id = 1")
        try await anna.engine.sync()
        let events = try await ben.events { try await ben.engine.sync() }
        #expect(events.contains { if case .merged = $0 { true } else { false } })
        #expect(!events.contains { if case .conflict = $0 { true } else { false } })
        #expect(try await ben.engine.conflicts().isEmpty)
        #expect(try await ben.engine.status().pendingChangeSets == 0)
        try await cluster.converge(anna, ben)
        #expect(try await anna.rows("SELECT text, done FROM notes WHERE id = 1") == ["goat milk + oat milk|1"])
    }

    @Test func `B14: the merge function gets base, mine and theirs, whole and typed`() async throws {
        let inputs = Mutex<[MergeInput]>([])
        let (_, anna, ben) = try await Self.pair { input in
            inputs.withLock { $0.append(input) }
            return nil
        }
        try await anna.write("UPDATE notes SET done = 2 WHERE id = 1")
        try await ben.write("UPDATE notes SET text = NULL WHERE id = 1")
        try await anna.engine.sync()
        try await ben.engine.sync()
        #expect(
            inputs.withLock { $0 } == [
                MergeInput(
                    table: "notes", key: "1", base: ["text": "milk".databaseValue, "done": 0.databaseValue],
                    mine: ["text": .null, "done": 0.databaseValue],
                    theirs: ["text": "milk".databaseValue, "done": 2.databaseValue], keyColumns: ["id": 1.databaseValue]
                )
            ])
        #expect(try await ben.engine.conflicts().map(\.reasons.first?.rule) == ["changed"])
        try await ben.engine.sync()
        #expect(inputs.withLock { $0.count } == 1, "a function that says nothing is asked once")
    }

    @Test func `B14: a merge that is refused is merged again with the newer rows`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        try await ben.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await anna.engine.sync()
        let count = Mutex(0)
        ben.transport.faults.whileInFlight {
            count.withLock { $0 += 1 }
            try await anna.write("UPDATE notes SET text = 'sheep milk' WHERE id = 1")
            try await anna.engine.sync()
        }
        try await cluster.converge(ben, anna)
        #expect(try await anna.rows("SELECT text FROM notes WHERE id = 1") == ["sheep milk + goat milk + oat milk"])
        #expect(try await ben.engine.conflicts().isEmpty)
    }

    @Test func `rule 20: a merge refused again and again becomes a conflict for the user`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        try await ben.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await anna.engine.sync()
        let store = cluster.store
        // Another device is always faster: every request is overtaken by its edit.
        let rounds = Mutex(0)
        let overtaking = OvertakingTransport(to: store) {
            let round = rounds.withLock { rounds -> Int in
                rounds += 1
                return rounds
            }
            try cluster.writeOutside("UPDATE notes SET text = 'faster \(round)' WHERE id = 1")
        }
        let engine = try await SyncEngine(
            ben.database, server: "http://cluster.test", transport: overtaking,
            merges: [TableMerge("notes", Self.joined)])
        try await engine.sync()
        #expect(rounds.withLock { $0 } <= Limits.standard.mergesMax + 2)
        let conflict = try #require(try await engine.conflicts().first)
        #expect(conflict.records.first?.mine?.contains("oat milk") == true)
        #expect(try await engine.status().pendingChangeSets == 0)
    }

    @Test func `B14: two new records with one key are merged as well`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("INSERT INTO tags VALUES ('urgent', 'red', 1)")
        try await ben.write("INSERT INTO tags VALUES ('urgent', 'blue', 1)")
        try await cluster.converge(anna, ben)
        #expect(try await anna.rows("SELECT colour FROM tags") == ["red + blue"])
        #expect(try await ben.engine.conflicts().isEmpty)
    }

    @Test func `rule 2: a change set with one record that cannot be merged is parked whole`() async throws {
        let (cluster, anna, ben) = try await Self.pair(tables: ["tags"])
        try await anna.write("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        try await anna.write("INSERT INTO tags VALUES ('urgent', 'red', 1)")
        try await ben.write(
            """
            UPDATE notes SET text = 'oat milk' WHERE id = 1;
            INSERT INTO tags VALUES ('urgent', 'blue', 1)
            """
        )
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT colour FROM tags") == ["red"])
        #expect(try await ben.engine.conflicts().count == 1)
    }

    @Test func `rule 11: dependents of a merged change set follow it without a conflict`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        try await ben.write("UPDATE notes SET text = 'oat milk' WHERE id = 1; INSERT INTO notes (text) VALUES ('new')")
        try await ben.write("UPDATE notes SET done = 1 WHERE id = 2")
        try await ben.write("UPDATE notes SET done = 7 WHERE text = 'new'")
        try await cluster.converge(anna, ben)
        #expect(
            try await anna.rows("SELECT text, done FROM notes ORDER BY id") == [
                "goat milk + oat milk|0", "bread|1", "new|7",
            ]
        )
        #expect(try await ben.engine.conflicts().isEmpty)
    }

    @Test func `A15: after a kill before the merge function ran, the next sync runs it`() async throws {
        let (cluster, anna, ben) = try await Self.pair(nil)
        try await anna.write("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        try await ben.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await cluster.converge(anna, ben)
        #expect(try await ben.engine.conflicts().count == 1)
        let engine = try await SyncEngine(
            ben.database, server: "http://cluster.test", transport: ben.transport,
            merges: [TableMerge("notes", Self.joined)])
        try await engine.sync()
        try await cluster.converge(anna, ben)
        #expect(try await anna.rows("SELECT text FROM notes WHERE id = 1") == ["goat milk + oat milk"])
    }

    @Test func `B14: a deleted note, and a refused deletion, are left to the user`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("DELETE FROM notes WHERE id = 1")
        try await anna.write("UPDATE notes SET text = 'rye bread' WHERE id = 2")
        try await ben.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await ben.write("DELETE FROM notes WHERE id = 2")
        try await cluster.converge(anna, ben)
        #expect(try await ben.engine.conflicts().map(\.reasons.first?.rule) == ["deleted", "changed"])
    }

    @Test func `rule 1: a refused deletion that cascades to an unseen note is left to the user`() async throws {
        let cluster = try Cluster(
            schema: """
                CREATE TABLE lists (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
                CREATE TABLE notes (id INTEGER PRIMARY KEY,
                    list_id INTEGER REFERENCES lists ON DELETE CASCADE, text TEXT);
                CREATE INDEX notes_list ON notes (list_id);
                CREATE TABLE tags (name TEXT PRIMARY KEY);
                """,
            seed: """
                INSERT INTO lists (name) VALUES ('home');
                INSERT INTO notes (list_id, text) VALUES (1, 'milk')
                """
        )
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben", merges: [TableMerge("tags") { _ in nil }])
        try await anna.write("INSERT INTO notes (list_id, text) VALUES (1, 'soap')")
        try await anna.engine.sync()
        try await ben.write("DELETE FROM lists WHERE id = 1")
        try await cluster.converge(ben, anna)
        #expect(try await ben.engine.conflicts().count == 1)
        #expect(try await cluster.rows("SELECT text FROM notes ORDER BY id") == ["milk", "soap"])
    }

    @Test func `B14: the README's merge function keeps the changes of both sides`() async throws {
        let (cluster, anna, ben) = try await Self.pair { record in
            guard let base = record.base else { return nil }
            var row = record.theirs
            for (column, value) in record.mine where value != base[column] { row[column] = value }
            return row
        }
        try await anna.write("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        try await ben.write("UPDATE notes SET done = 1 WHERE id = 1")
        try await cluster.converge(anna, ben)
        #expect(try await anna.rows("SELECT text, done FROM notes WHERE id = 1") == ["goat milk|1"])
    }
}

/// A transport on which another device is always faster.
private final class OvertakingTransport: ForwardingTransport {
    let real: InProcessTransport
    private let overtake: @Sendable () throws -> Void

    init(to service: EmbeddedStore, _ overtake: @escaping @Sendable () throws -> Void) {
        real = InProcessTransport(to: service)
        self.overtake = overtake
    }

    func sync(zone: String, body: [UInt8]) async throws -> [UInt8] {
        try overtake()
        return try await real.sync(zone: zone, body: body)
    }
}
