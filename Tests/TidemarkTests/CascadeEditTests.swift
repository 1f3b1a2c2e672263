import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Cases 44, 50 and 51 between devices: trees that are deleted and restored, and unique values that
/// move between records.
@Suite struct CascadeEditTests {
    private static let tree = """
        CREATE TABLE lists (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE notes (id INTEGER PRIMARY KEY,
            list_id INTEGER NOT NULL REFERENCES lists ON DELETE CASCADE, text TEXT);
        CREATE TABLE tags (name TEXT PRIMARY KEY);
        CREATE TABLE note_tags (note_id INTEGER NOT NULL REFERENCES notes ON DELETE CASCADE,
            tag TEXT NOT NULL REFERENCES tags, PRIMARY KEY (note_id, tag));
        CREATE INDEX notes_list ON notes (list_id);
        CREATE INDEX note_tags_tag ON note_tags (tag);
        """
    private static let seed = """
        INSERT INTO lists VALUES (1, 'home'), (2, 'work');
        INSERT INTO notes VALUES (1, 1, 'milk'), (2, 1, 'bread'), (3, 2, 'report');
        INSERT INTO tags VALUES ('urgent'), ('cheap');
        INSERT INTO note_tags VALUES (1, 'urgent'), (1, 'cheap'), (2, 'cheap'), (3, 'urgent');
        """

    private static func pair() async throws -> (cluster: Cluster, anna: TestDevice, ben: TestDevice) {
        let cluster = try Cluster(schema: tree, seed: seed)
        return (cluster, try await cluster.device("anna"), try await cluster.device("ben"))
    }

    private static let whole = """
        SELECT l.name, n.text, t.tag FROM lists AS l JOIN notes AS n ON n.list_id = l.id
        LEFT JOIN note_tags AS t ON t.note_id = n.id ORDER BY n.id, t.tag
        """

    @Test func `case 44, I3 I8: a refused deletion restores list, notes and join rows together`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("UPDATE notes SET text = 'rye bread' WHERE id = 2")
        try await ben.write("DELETE FROM lists WHERE id = 1")
        #expect(try await ben.rows("SELECT count(*) FROM note_tags") == ["1"])
        try await cluster.converge(anna, ben)
        #expect(
            try await ben.rows(Self.whole) == [
                "home|milk|cheap", "home|milk|urgent", "home|rye bread|cheap", "work|report|urgent",
            ]
        )
        // The answer's current rows are enough to build them again without a copy: all three
        // levels.
        let answer = try #require(ben.transport.faults.answers.last { $0.contains("conflict\":true") })
        for part in [#""lists":{"create":[],"update":[1]"#, #""notes":{"create":[],"update":[1,2]"#] {
            #expect(answer.contains(part), "\(answer)")
        }
        #expect(answer.contains(#""note_tags":{"create":[],"update":[[1,"cheap"],[2,"cheap"],[1,"urgent"]]"#))
        try await ben.engine.resolve("1", with: .retry)
        try await cluster.converge(ben, anna)
        #expect(try await anna.rows(Self.whole) == ["work|report|urgent"])
    }

    @Test func `case 51, I9 I5: the deletion of a list meets a pending edit of its note`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("DELETE FROM lists WHERE id = 1")
        try await ben.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await ben.write("INSERT INTO note_tags VALUES (2, 'urgent')")
        try await ben.write("UPDATE notes SET text = 'essay' WHERE id = 3")
        try await anna.engine.sync()
        let events = try await ben.events { try await ben.engine.sync() }
        #expect(events.contains(.changedWhileEdited(RecordName("notes", 1), isDeleted: true)))
        try await cluster.converge(anna, ben)
        #expect(try await anna.rows(Self.whole) == ["work|essay|urgent"])
        #expect(try await ben.rows("PRAGMA foreign_key_check") == [])
        let rules = try await ben.engine.conflicts().map(\.reasons.first?.rule)
        #expect(rules == ["deleted", "parentDeleted"])
        #expect(try await ben.engine.conflicts().first?.records.map(\.mine) == [#"{"text":"oat milk"}"#])
    }

    @Test func `case 51: a list deleted by a shell at the server meets pending edits of its notes`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await ben.write("INSERT INTO notes (list_id, text) VALUES (1, 'soap')")
        try cluster.writeOutside("PRAGMA foreign_keys = ON; DELETE FROM lists WHERE id = 1")
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows(Self.whole) == ["work|report|urgent"])
        #expect(try await ben.engine.conflicts().map(\.reasons.first?.rule) == ["parentDeleted"])
    }

    // MARK: Unique values

    private static let slots = """
        CREATE TABLE slots (id INTEGER PRIMARY KEY, day INTEGER NOT NULL, position INTEGER NOT NULL,
            name TEXT NOT NULL UNIQUE, UNIQUE (day, position))
        """

    /// All orders of the numbers from 1 to `count`.
    private static func permutations(_ count: Int) -> [[Int]] {
        guard count > 0 else { return [[]] }
        return permutations(count - 1).flatMap { shorter in
            (0...shorter.count).map { place in
                var longer = shorter
                longer.insert(count, at: place)
                return longer
            }
        }
    }

    @Test(arguments: [3, 4]) func `case 50: every permutation of unique values in one set arrives`(count: Int)
        async throws
    {
        let rows = (1...count).map { "(\($0), 1, \($0), 'n\($0)')" }.joined(separator: ", ")
        let cluster = try Cluster(schema: Self.slots, seed: "INSERT INTO slots VALUES \(rows)")
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        for order in Self.permutations(count) {
            let away = "UPDATE slots SET position = -position, name = 'x' || name"
            let back = zip(1...count, order).map {
                "UPDATE slots SET position = \($1), name = 'n\($1)' WHERE id = \($0)"
            }
            try await anna.write(([away] + back).joined(separator: ";"))
            try await cluster.converge(anna, ben)
            #expect(try await ben.rows("SELECT position FROM slots ORDER BY id") == order.map(String.init))
        }
        #expect(try await anna.engine.conflicts().isEmpty)
    }

    @Test func `case 50: a unique value moves to a record created again in the same set`() async throws {
        let cluster = try Cluster(
            schema: Self.slots, seed: "INSERT INTO slots VALUES (1, 1, 1, 'one'), (2, 1, 2, 'two')")
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write(
            """
            DELETE FROM slots WHERE id = 1;
            UPDATE slots SET position = 1 WHERE id = 2;
            INSERT INTO slots (day, position, name) VALUES (1, 2, 'one')
            """
        )
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT position, name FROM slots ORDER BY position") == ["1|two", "2|one"])
    }

    @Test func `rule 18: half of a unique pair changes, and the conflict names the pair's holder`() async throws {
        let cluster = try Cluster(
            schema: Self.slots, seed: "INSERT INTO slots VALUES (1, 1, 1, 'one'), (2, 1, 2, 'two'), (3, 2, 2, 'three')")
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("UPDATE slots SET position = 3 WHERE id = 1")
        try await ben.write("UPDATE slots SET position = 3 WHERE id = 2")
        try await cluster.converge(anna, ben)
        let conflict = try #require(try await ben.engine.conflicts().first)
        #expect(conflict.reasons.map(\.rule) == ["unique"])
        #expect(conflict.reasons.map(\.key) == ["1"])
        #expect(conflict.records.filter { $0.operation == "unchanged" }.map(\.key) == ["1"])
    }
}
