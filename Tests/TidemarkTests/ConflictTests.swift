import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Two devices change the same record without seeing each other's change.
@Suite struct ConflictTests {
    private static let schema = """
        CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT, done INTEGER NOT NULL DEFAULT 0)
        """
    private static let seed = "INSERT INTO notes (text) VALUES ('milk'), ('bread')"

    private static func offlinePair(_ policy: ConflictPolicy = .reject) async throws -> (
        cluster: Cluster, anna: TestDevice, ben: TestDevice
    ) {
        let cluster = try Cluster(schema: schema, seed: seed, policies: ["notes": policy])
        return (cluster, try await cluster.device("anna"), try await cluster.device("ben"))
    }

    @Test(arguments: ConflictPolicy.asking)
    func `A6, rule 1: both edit a note offline, and the later sync overwrites nothing`(policy: ConflictPolicy)
        async throws
    {
        let (cluster, anna, ben) = try await Self.offlinePair(policy)
        try await anna.write("UPDATE notes SET text = 'milk and eggs' WHERE id = 1")
        try await ben.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await anna.engine.sync()
        let events = try await ben.events { try await ben.engine.sync() }

        #expect(try await ben.rows("SELECT text FROM notes WHERE id = 1") == ["milk and eggs"])
        let parked = try await ben.engine.conflicts()
        let conflict = try #require(parked.first)
        #expect(parked.count == 1)
        #expect(events.contains(.conflict(conflict.id)))
        let reason = try #require(conflict.reasons.first)
        #expect(reason.rule == "changed")
        #expect(reason.table == "notes" && reason.key == "1" && reason.columns == ["text"])
        let record = try #require(conflict.records.first)
        #expect(record.table == "notes" && record.key == "1" && record.operation == "update")
        #expect(record.base == #"{"text":"milk","done":0}"#)
        #expect(record.mine == #"{"text":"oat milk"}"#)
        #expect(record.theirs == #"{"text":"milk and eggs","done":0}"#)
        try await cluster.converge(anna, ben)
        #expect(try await anna.rows("SELECT text FROM notes WHERE id = 1") == ["milk and eggs"])
        #expect(try await anna.engine.conflicts().isEmpty)
    }

    @Test func `A6: under columns, edits of different columns are both kept`() async throws {
        let (cluster, anna, ben) = try await Self.offlinePair(.columns)
        try await anna.write("UPDATE notes SET text = 'milk and eggs' WHERE id = 1")
        try await ben.write("UPDATE notes SET done = 1 WHERE id = 1")
        try await cluster.converge(anna, ben)
        for device in [anna, ben] {
            #expect(try await device.rows("SELECT * FROM notes WHERE id = 1") == ["1|milk and eggs|1"])
            #expect(try await device.engine.conflicts().isEmpty)
        }
    }

    @Test func `A6: under reject, edits of different columns are a conflict`() async throws {
        let (cluster, anna, ben) = try await Self.offlinePair(.reject)
        try await anna.write("UPDATE notes SET text = 'milk and eggs' WHERE id = 1")
        try await ben.write("UPDATE notes SET done = 1 WHERE id = 1")
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT * FROM notes WHERE id = 1") == ["1|milk and eggs|0"])
        #expect(try await ben.engine.conflicts().map(\.reasons.first?.rule) == ["changed"])
    }

    @Test func `A6: under columns, equal values from both are no conflict`() async throws {
        let (cluster, anna, ben) = try await Self.offlinePair(.columns)
        try await anna.write("UPDATE notes SET text = 'butter' WHERE id = 1")
        try await ben.write("UPDATE notes SET text = 'butter', done = 1 WHERE id = 1")
        try await cluster.converge(anna, ben)
        #expect(try await anna.rows("SELECT * FROM notes WHERE id = 1") == ["1|butter|1"])
        #expect(try await ben.engine.conflicts().isEmpty)
    }

    @Test func `A6: under columns, an edit on top of an edit that it saw is no conflict`() async throws {
        let (cluster, anna, ben) = try await Self.offlinePair(.columns)
        try await anna.write("UPDATE notes SET text = 'butter' WHERE id = 1")
        try await cluster.converge(anna, ben)
        try await ben.write("UPDATE notes SET text = 'margarine' WHERE id = 1")
        try await cluster.converge(ben, anna)
        #expect(try await anna.rows("SELECT text FROM notes WHERE id = 1") == ["margarine"])
        #expect(try await ben.engine.conflicts().isEmpty)
    }

    @Test(arguments: ConflictPolicy.allCases.filter { $0 != .add })
    func `A6, rule 1: an edit of a note that was deleted is a conflict`(policy: ConflictPolicy) async throws {
        let (cluster, anna, ben) = try await Self.offlinePair(policy)
        try await anna.write("DELETE FROM notes WHERE id = 1")
        try await ben.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT id FROM notes") == ["2"])
        let conflict = try #require(try await ben.engine.conflicts().first)
        #expect(conflict.reasons.map(\.rule) == ["deleted"])
        #expect(conflict.records.first?.base == #"{"text":"milk","done":0}"#)
        #expect(conflict.records.first?.mine == #"{"text":"oat milk"}"#)
        #expect(conflict.records.first?.theirs == nil)
    }

    @Test(arguments: ConflictPolicy.asking)
    func `A6, rule 1: the deletion of an edited note is a conflict and restores the note`(policy: ConflictPolicy)
        async throws
    {
        let (cluster, anna, ben) = try await Self.offlinePair(policy)
        try await anna.write("UPDATE notes SET text = 'milk and eggs' WHERE id = 1")
        try await ben.write("DELETE FROM notes WHERE id = 1")
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT text FROM notes ORDER BY id") == ["milk and eggs", "bread"])
        let conflict = try #require(try await ben.engine.conflicts().first)
        #expect(conflict.reasons.map(\.rule) == ["changed"])
        #expect(conflict.records.first?.operation == "delete")
        #expect(conflict.records.first?.mine == nil)
        #expect(conflict.records.first?.theirs == #"{"text":"milk and eggs","done":0}"#)
    }

    @Test func `A6: if both delete a note, there is no conflict`() async throws {
        let (cluster, anna, ben) = try await Self.offlinePair()
        try await anna.write("DELETE FROM notes WHERE id = 1")
        try await ben.write("DELETE FROM notes WHERE id = 1")
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT id FROM notes") == ["2"])
        #expect(try await ben.engine.conflicts().isEmpty)
    }

    @Test func `A11: the app learns that a record in its editor was changed or deleted`() async throws {
        let (cluster, anna, ben) = try await Self.offlinePair()
        try await anna.write("UPDATE notes SET text = 'milk and eggs' WHERE id = 1")
        try await anna.write("DELETE FROM notes WHERE id = 2")
        try await ben.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await ben.write("UPDATE notes SET text = 'rye bread' WHERE id = 2")
        try await anna.engine.sync()
        let events = try await ben.events { try await ben.engine.sync() }
        #expect(events.contains(.changedWhileEdited(RecordName("notes", 1), isDeleted: false)))
        #expect(events.contains(.changedWhileEdited(RecordName("notes", 2), isDeleted: true)))
        let changes = try #require(
            events.compactMap { if case .changed(let changes) = $0 { changes } else { nil } }.first)
        #expect(changes.revision == 3)
        #expect(changes.change(of: RecordName("notes", 1)) == .written)
        #expect(changes.change(of: RecordName("notes", 2)) == .deleted)
        #expect(changes.change(of: RecordName("notes", 3)) == nil)
        try await cluster.converge(anna, ben)
    }

    @Test func `A6: an edit by the sqlite3 shell at the server counts as unseen`() async throws {
        let (cluster, anna, ben) = try await Self.offlinePair()
        try await ben.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try cluster.writeOutside("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        try await cluster.converge(anna, ben)
        #expect(try await anna.rows("SELECT text FROM notes WHERE id = 1") == ["goat milk"])
        #expect(try await ben.engine.conflicts().map(\.records.first?.mine) == [#"{"text":"oat milk"}"#])
    }

    @Test(arguments: ConflictPolicy.asking)
    func `A6: if both create the same text key, the later one sees the earlier one's row`(policy: ConflictPolicy)
        async throws
    {
        let cluster = try Cluster(
            schema: "CREATE TABLE tags (name TEXT PRIMARY KEY, colour TEXT)", policies: ["tags": policy])
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("INSERT INTO tags VALUES ('urgent', 'red')")
        try await ben.write("INSERT INTO tags VALUES ('urgent', 'blue')")
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT * FROM tags") == ["urgent|red"])
        let conflict = try #require(try await ben.engine.conflicts().first)
        #expect(conflict.reasons.map(\.rule) == ["exists"])
        #expect(conflict.records.map(\.mine) == [#"{"colour":"blue"}"#])
        #expect(conflict.records.map(\.theirs) == [#"{"colour":"red"}"#])
    }

    @Test func `rule 1: a fast clock has no advantage, because the order of arrival decides`() async throws {
        let (cluster, anna, ben) = try await Self.offlinePair()
        try await ben.write("UPDATE notes SET text = 'first edit' WHERE id = 1")
        try await anna.write("UPDATE notes SET text = 'later edit, first sync' WHERE id = 1")
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows("SELECT text FROM notes WHERE id = 1") == ["later edit, first sync"])
        #expect(try await ben.engine.conflicts().count == 1)
    }
}

extension ConflictPolicy {
    /// The policies that leave the decision to a person.
    static let asking = allCases.filter { !$0.decides && $0 != .add }
}
