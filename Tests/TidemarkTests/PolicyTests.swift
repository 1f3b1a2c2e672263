import Synchronization
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Rule 27: `lastWriter` and `latest` between real devices: one value prevails, the other is kept
/// and can be restored.
@Suite struct PolicyTests {
    private static let schema = """
        CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT, done INTEGER NOT NULL DEFAULT 0,
            code TEXT UNIQUE)
        """
    private static let seed = "INSERT INTO notes (text) VALUES ('milk'), ('bread')"

    private static func pair(_ policies: [String: ConflictPolicy] = ["notes": .lastWriter]) async throws -> (
        cluster: Cluster, anna: TestDevice, ben: TestDevice
    ) {
        let cluster = try Cluster(schema: schema, seed: seed, policies: policies)
        return (cluster, try await cluster.device("anna"), try await cluster.device("ben"))
    }

    /// Anna's text arrives first, then Ben's, made without seeing Anna's.
    private static func overwritten() async throws -> (cluster: Cluster, anna: TestDevice, ben: TestDevice) {
        let (cluster, anna, ben) = try await pair()
        try await anna.write("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        try await ben.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await anna.engine.sync()
        try await ben.engine.sync()
        return (cluster, anna, ben)
    }

    @Test func `B8: the last arrival prevails, and the overruled value is in its author's inbox`() async throws {
        let (cluster, anna, ben) = try await Self.overwritten()
        let events = try await anna.events { try await anna.engine.sync() }
        try await cluster.converge(anna, ben)
        #expect(try await anna.rows("SELECT text FROM notes WHERE id = 1") == ["oat milk"])
        #expect(try await ben.engine.conflicts().isEmpty)
        let conflict = try #require(try await anna.engine.conflicts().first)
        #expect(events.contains(.overruled(conflict.id)))
        #expect(conflict.kind == .overruled)
        #expect(conflict.reasons.map(\.rule) == ["overruled"])
        #expect(conflict.reasons.map(\.columns) == [["text"]])
        #expect(conflict.records.map(\.mine) == [#"{"text":"goat milk"}"#])
        #expect(conflict.records.map(\.theirs) == [#"{"text":"oat milk"}"#])
        let status = try await anna.engine.status()
        #expect(status.conflicts == 0 && status.overruled == 1)
    }

    @Test func `B8: restoring an overruled value makes a new change set that reaches all devices`() async throws {
        let (cluster, anna, ben) = try await Self.overwritten()
        try await anna.engine.sync()
        let conflict = try #require(try await anna.engine.conflicts().first)
        try await anna.engine.resolve(conflict.id, with: .retry)
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT text FROM notes WHERE id = 1") == ["goat milk"])
        for device in [anna, ben] { #expect(try await device.engine.conflicts().isEmpty) }
    }

    @Test func `B8: a dismissed overruled value is not reported again`() async throws {
        let (cluster, anna, ben) = try await Self.overwritten()
        try await anna.engine.sync()
        let conflict = try #require(try await anna.engine.conflicts().first)
        try await anna.engine.resolve(conflict.id, with: .accept)
        try await cluster.converge(anna, ben)
        #expect(try await anna.engine.conflicts().isEmpty)
        #expect(try await cluster.rows("SELECT count(*) FROM tidemark_overruled") == ["0"])
    }

    @Test func `B8: after the loss of an answer with an overruled value, it is reported once`() async throws {
        let (cluster, anna, ben) = try await Self.overwritten()
        anna.transport.faults.add(.answerLost)
        await #expect(throws: TidemarkError.self) { try await anna.engine.sync() }
        try await cluster.converge(anna, ben)
        #expect(try await anna.engine.conflicts().count == 1)
    }

    @Test func `B8: a value overruled before the history changed is still in the inbox`() async throws {
        let (cluster, anna, ben) = try await Self.overwritten()
        try await cluster.restore(try await cluster.backUp(), isSaid: true)
        let events = try await anna.events { try await anna.engine.sync() }
        #expect(events.contains { if case .historyChanged = $0 { true } else { false } })
        let conflict = try #require(try await anna.engine.conflicts().first)
        #expect(events.contains(.overruled(conflict.id)))
        #expect(conflict.kind == .overruled)
        #expect(conflict.records.map(\.mine) == [#"{"text":"goat milk"}"#])
        try await cluster.converge(anna, ben)
        #expect(try await anna.rows("SELECT text FROM notes WHERE id = 1") == ["oat milk"])
        #expect(try await anna.engine.conflicts().count == 1)
        #expect(try await ben.engine.conflicts().isEmpty)
    }

    @Test func `B8: under lastWriter, edits of different columns merge and none is overruled`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        try await ben.write("UPDATE notes SET done = 1 WHERE id = 1")
        try await cluster.converge(anna, ben)
        #expect(try await anna.rows("SELECT text, done FROM notes WHERE id = 1") == ["goat milk|1"])
        #expect(try await anna.engine.conflicts().isEmpty)
    }

    @Test func `B8: a later deletion prevails, and the editor can restore the note whole`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        try await ben.write("DELETE FROM notes WHERE id = 1")
        try await cluster.converge(anna, ben)
        #expect(try await anna.rows("SELECT id FROM notes") == ["2"])
        let conflict = try #require(try await anna.engine.conflicts().first)
        #expect(conflict.records.map(\.mine) == [#"{"text":"goat milk"}"#])
        #expect(conflict.records.map(\.theirs) == [nil])
        try await anna.engine.resolve(conflict.id, with: .retry)
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT text, done FROM notes ORDER BY text") == ["bread|0", "goat milk|0"])
    }

    @Test func `B8: a sqlite3 edit at the server is overruled too, and its winner keeps it`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await ben.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try cluster.writeOutside("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        try await cluster.converge(anna, ben)
        #expect(try await anna.rows("SELECT text FROM notes WHERE id = 1") == ["oat milk"])
        let conflict = try #require(try await ben.engine.conflicts().first)
        #expect(conflict.kind == .overruled)
        #expect(conflict.records.map(\.mine) == [#"{"text":"goat milk"}"#])
    }

    @Test func `rule 18: a unique value in use is a conflict under every policy`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("UPDATE notes SET code = 'X' WHERE id = 1")
        try await ben.write("UPDATE notes SET code = 'X' WHERE id = 2")
        try await cluster.converge(anna, ben)
        #expect(try await ben.engine.conflicts().map(\.reasons.first?.rule) == ["unique"])
        #expect(try await cluster.rows("SELECT id FROM notes WHERE code = 'X'") == ["1"])
    }

    @Test func `B11: of two edits of one setting, the later prevails`() async throws {
        let cluster = try Cluster(
            schema: "CREATE TABLE settings (name TEXT PRIMARY KEY, value, at INTEGER)",
            policies: ["settings": .lastWriter])
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("INSERT INTO settings VALUES ('colour', 'red', 1), ('size', 3, 1)")
        try await ben.write("INSERT INTO settings VALUES ('colour', 'blue', 1), ('size', 3, 1)")
        try await cluster.converge(anna, ben)
        #expect(try await anna.rows("SELECT * FROM settings ORDER BY name") == ["colour|blue|1", "size|3|1"])
        #expect(try await anna.engine.conflicts().flatMap { $0.records.map(\.mine) } == [#"{"value":"red"}"#])
        #expect(try await ben.engine.conflicts().isEmpty, "what both have made alike is no conflict")
    }

    @Test func `B11: a setting that another program made at the server is overruled, and its winner keeps it`()
        async throws
    {
        let cluster = try Cluster(
            schema: "CREATE TABLE settings (name TEXT PRIMARY KEY, value, at INTEGER)",
            policies: ["settings": .lastWriter])
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("INSERT INTO settings VALUES ('colour', 'red', 1)")
        try cluster.writeOutside("INSERT INTO settings VALUES ('colour', 'blue', 1)")
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT * FROM settings") == ["colour|red|1"])
        let conflict = try #require(try await anna.engine.conflicts().first)
        #expect(conflict.kind == .overruled)
        #expect(conflict.records.map(\.mine) == [#"{"value":"blue"}"#])
        #expect(try await ben.engine.conflicts().isEmpty)
    }

    @Test func `B8: two edits of a note overrule another value once, and not each other`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        try await anna.engine.sync()
        try await ben.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await ben.write("UPDATE notes SET done = 1 WHERE id = 2")
        try await ben.write("UPDATE notes SET text = 'rye milk' WHERE id = 1")
        try await cluster.converge(ben, anna)
        #expect(try await anna.rows("SELECT text FROM notes WHERE id = 1") == ["rye milk"])
        #expect(try await anna.engine.conflicts().flatMap { $0.records.map(\.mine) } == [#"{"text":"goat milk"}"#])
        #expect(try await ben.engine.conflicts().isEmpty)
    }

    @Test func `B11: a device that sets an existing key twice is not refused`() async throws {
        let cluster = try Cluster(
            schema: "CREATE TABLE settings (name TEXT PRIMARY KEY, value)", policies: ["settings": .lastWriter])
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("INSERT INTO settings VALUES ('colour', 'red')")
        try await anna.engine.sync()
        try await ben.write("INSERT INTO settings VALUES ('colour', 'blue')")
        try await ben.write("INSERT INTO settings VALUES ('size', 3)")
        try await ben.write("UPDATE settings SET value = 'green' WHERE name = 'colour'")
        try await cluster.converge(ben, anna)
        #expect(try await anna.rows("SELECT * FROM settings ORDER BY name") == ["colour|green", "size|3"])
        #expect(try await ben.engine.conflicts().isEmpty)
        #expect(try await anna.engine.conflicts().flatMap { $0.records.map(\.mine) } == [#"{"value":"red"}"#])
    }

    @Test func `A6: a column's own policy applies to it, the table's to the others`() async throws {
        let (cluster, anna, ben) = try await Self.pair(["notes": .columns, "notes.done": .lastWriter])
        try await anna.write("UPDATE notes SET done = 1 WHERE id = 1")
        try await anna.write("UPDATE notes SET text = 'rye bread' WHERE id = 2")
        try await ben.write("UPDATE notes SET done = 2 WHERE id = 1")
        try await ben.write("UPDATE notes SET text = 'oat bread' WHERE id = 2")
        try await cluster.converge(anna, ben)
        #expect(try await anna.rows("SELECT text, done FROM notes ORDER BY id") == ["milk|2", "rye bread|0"])
        #expect(try await ben.engine.conflicts().map(\.reasons.first?.columns) == [["text"]])
        #expect(try await anna.engine.conflicts().map(\.kind) == [.overruled])
    }

    @Test func `I9: a later deletion of a list does not delete a note that another device edited`() async throws {
        let cluster = try Cluster(
            schema: """
                CREATE TABLE lists (id INTEGER PRIMARY KEY, name TEXT);
                CREATE TABLE items (id INTEGER PRIMARY KEY,
                    list_id INTEGER REFERENCES lists ON DELETE CASCADE, text TEXT);
                CREATE INDEX items_list ON items (list_id);
                """,
            seed: "INSERT INTO lists VALUES (1, 'home')",
            policies: ["lists": .lastWriter, "items": .lastWriter]
        )
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("INSERT INTO items (list_id, text) VALUES (1, 'soap')")
        try await ben.write("DELETE FROM lists WHERE id = 1")
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT text FROM items") == ["soap"])
        #expect(try await ben.engine.conflicts().map(\.reasons.first?.rule) == ["changed"])
    }

    @Test(arguments: [ConflictPolicy.lastWriter, .latest], 1...UInt64(Effort.count(short: 3, long: 12)))
    func `I2: every written value stands or is kept on a device`(policy: ConflictPolicy, seed: UInt64) async throws {
        var random = SeededGenerator(seed: seed)
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed, policies: ["notes": policy])
        var devices: [TestDevice] = []
        for name in ["anna", "ben", "cleo"] { devices.append(try await cluster.device(name)) }
        for round in 0..<4 {
            var texts: [String] = []
            for (index, device) in devices.enumerated() {
                let value = "r\(round)d\(index)"
                texts.append(value)
                let id = Int.random(in: 1...2, using: &random)
                let isDeletion = policy == .lastWriter && id == 2 && round == 3 && index == 2
                try await device.write(
                    isDeletion
                        ? "DELETE FROM notes WHERE id = 2" : "UPDATE notes SET text = '\(value)' WHERE id = \(id)")
                if isDeletion { texts.removeLast() }
            }
            for device in devices.shuffled(using: &random) { try await device.engine.sync() }
            try await cluster.converge(devices)
            var values = try await cluster.rows("SELECT text FROM notes")
            for device in devices {
                let records = try await device.engine.conflicts().flatMap(\.records)
                values += records.compactMap(\.mine)
            }
            for value in texts { #expect(values.contains { $0.contains(value) }, "\(value) of seed \(seed) is lost") }
        }
    }
}
