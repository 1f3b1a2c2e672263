import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// The user resolves a parked conflict, and the result is an ordinary edit.
@Suite struct ResolveTests {
    private static let schema = """
        CREATE TABLE lists (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
        CREATE TABLE notes (id INTEGER PRIMARY KEY,
            list_id INTEGER REFERENCES lists ON DELETE CASCADE, text TEXT, done INTEGER DEFAULT 0);
        CREATE INDEX notes_list ON notes (list_id);
        """
    private static let seed = """
        INSERT INTO lists (name) VALUES ('home'), ('work');
        INSERT INTO notes (list_id, text) VALUES (1, 'milk'), (1, 'bread'), (2, 'report')
        """

    /// Anna did `first` and synced; Ben did `second` unaware, which was parked.
    private static func collided(_ first: String, _ second: String) async throws -> (
        cluster: Cluster, anna: TestDevice, ben: TestDevice, conflict: Conflict
    ) {
        let cluster = try Cluster(schema: schema, seed: seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write(first)
        try await ben.write(second)
        try await anna.engine.sync()
        try await ben.engine.sync()
        return (cluster, anna, ben, try #require(try await ben.engine.conflicts().first))
    }

    @Test func `A6: accepting keeps the server's note and sends nothing`() async throws {
        let (cluster, anna, ben, conflict) = try await Self.collided(
            "UPDATE notes SET text = 'goat milk' WHERE id = 1", "UPDATE notes SET text = 'oat milk' WHERE id = 1")
        let revision = try await cluster.store.state().revision
        try await ben.engine.resolve(conflict.id, with: .accept)
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT text FROM notes WHERE id = 1") == ["goat milk"])
        #expect(try await ben.engine.conflicts().isEmpty)
        #expect(try await cluster.store.state().revision == revision)
    }

    @Test func `A6: retrying applies my edit on top of the server's note`() async throws {
        let (cluster, anna, ben, conflict) = try await Self.collided(
            "UPDATE notes SET text = 'goat milk', done = 1 WHERE id = 1",
            "UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await ben.engine.resolve("\(conflict.number)", with: .retry)
        #expect(try await ben.engine.conflicts().isEmpty)
        #expect(try await ben.rows("SELECT text, done FROM notes WHERE id = 1") == ["oat milk|1"])
        try await cluster.converge(ben, anna)
        #expect(try await anna.rows("SELECT text, done FROM notes WHERE id = 1") == ["oat milk|1"])
        #expect(try ben.lastSent == [["update notes 1 (text)"]])
    }

    @Test func `A6: retrying an edit of a deleted note creates the note again`() async throws {
        let (cluster, anna, ben, conflict) = try await Self.collided(
            "DELETE FROM notes WHERE id = 2", "UPDATE notes SET done = 1 WHERE id = 2")
        try await ben.engine.resolve(conflict.id, with: .retry)
        try await cluster.converge(ben, anna)
        #expect(try await anna.rows("SELECT list_id, text, done FROM notes WHERE text = 'bread'") == ["1|bread|1"])
        #expect(try await anna.rows("SELECT id FROM notes WHERE text = 'bread'") != ["2"])
    }

    @Test func `A6: retrying a deletion deletes the note that another device edited`() async throws {
        let (cluster, anna, ben, conflict) = try await Self.collided(
            "UPDATE notes SET text = 'rye bread' WHERE id = 2", "DELETE FROM notes WHERE id = 2")
        try await ben.engine.resolve(conflict.id, with: .retry)
        try await cluster.converge(ben, anna)
        #expect(try await anna.rows("SELECT id FROM notes") == ["1", "3"])
    }

    @Test func `A8: retrying the deletion of a list cascades to its notes`() async throws {
        let (cluster, anna, ben, conflict) = try await Self.collided(
            "UPDATE lists SET name = 'house' WHERE id = 1", "DELETE FROM lists WHERE id = 1")
        try await ben.engine.resolve(conflict.id, with: .retry)
        try await cluster.converge(ben, anna)
        #expect(try await anna.rows("SELECT name FROM lists") == ["work"])
        #expect(try await anna.rows("SELECT text FROM notes") == ["report"])
    }

    @Test func `A6: a retried edit that conflicts again is parked again`() async throws {
        let (cluster, anna, ben, conflict) = try await Self.collided(
            "UPDATE notes SET text = 'goat milk' WHERE id = 1", "UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await ben.engine.resolve(conflict.id, with: .retry)
        try await anna.write("UPDATE notes SET text = 'sheep milk' WHERE id = 1")
        try await anna.engine.sync()
        try await ben.engine.sync()
        let again = try #require(try await ben.engine.conflicts().first)
        #expect(again.id != conflict.id && again.number != conflict.number)
        #expect(again.records.first?.base?.contains("goat milk") == true)
        #expect(again.records.first?.theirs?.contains("sheep milk") == true)
        try await ben.engine.resolve(again.id, with: .retry)
        try await cluster.converge(ben, anna)
        #expect(try await anna.rows("SELECT text FROM notes WHERE id = 1") == ["oat milk"])
    }

    @Test func `A6: resolving an unknown or resolved conflict gives a clear error`() async throws {
        let (_, _, ben, conflict) = try await Self.collided(
            "UPDATE notes SET text = 'goat milk' WHERE id = 1", "UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await ben.engine.resolve(conflict.id, with: .accept)
        await #expect { try await ben.engine.resolve(conflict.id, with: .retry) } throws: { error in
            (error as? TidemarkError)?.code == .invalidArgument
        }
    }

    @Test func `A6: a note of a deleted list cannot be retried, and is kept`() async throws {
        let (cluster, anna, ben, conflict) = try await Self.collided(
            "DELETE FROM lists WHERE id = 1", "INSERT INTO notes (list_id, text) VALUES (1, 'soap')")
        await #expect(throws: TidemarkError.self) { try await ben.engine.resolve(conflict.id, with: .retry) }
        #expect(try await ben.engine.conflicts().map(\.id) == [conflict.id])
        #expect(try await ben.rows("PRAGMA foreign_key_check") == [])
        try await cluster.converge(anna, ben)
    }

    @Test func `rule 11: a refused change set blocks no other`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        try await ben.write("UPDATE notes SET text = 'rye bread' WHERE id = 2")
        try await ben.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await ben.write("INSERT INTO notes (list_id, text) VALUES (2, 'slides')")
        try await ben.write("UPDATE lists SET name = 'house' WHERE id = 1")
        try await cluster.converge(anna, ben)
        #expect(
            try await anna.rows("SELECT text FROM notes ORDER BY id") == ["goat milk", "rye bread", "report", "slides"])
        #expect(try await anna.rows("SELECT name FROM lists ORDER BY id") == ["house", "work"])
        let parked = try await ben.engine.conflicts()
        #expect(parked.map { $0.records.map(\.mine) } == [[#"{"text":"oat milk"}"#]])
    }

    @Test func `rule 11: dependents of a refused change set are parked with it`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        // The new list is parked with the edit in its change set, and with it the notes on the
        // list.
        try await ben.write(
            """
            UPDATE notes SET text = 'oat milk' WHERE id = 1;
            INSERT INTO lists (name) VALUES ('garden')
            """
        )
        try await ben.write("UPDATE notes SET done = 1 WHERE id = 3")
        try await ben.write("INSERT INTO notes (list_id, text) SELECT max(id), 'rake' FROM lists")
        try await ben.write("UPDATE notes SET done = 1 WHERE id = 1")
        try await cluster.converge(anna, ben)
        #expect(
            try await anna.rows("SELECT text, done FROM notes ORDER BY id") == ["goat milk|0", "bread|0", "report|1"])
        #expect(try await anna.rows("SELECT name FROM lists ORDER BY id") == ["home", "work"])
        let rules = try await ben.engine.conflicts().map { $0.reasons.map(\.rule) }
        #expect(rules == [["changed"], ["predecessor"], ["predecessor"]])
        #expect(try await ben.engine.status().conflicts == 3)
    }

    @Test func `rule 11: change sets parked together can be retried in order`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        try await ben.write(
            """
            UPDATE notes SET text = 'oat milk' WHERE id = 1;
            INSERT INTO lists (name) VALUES ('garden')
            """
        )
        try await ben.write("UPDATE notes SET done = 1 WHERE id = 3")
        try await ben.write("INSERT INTO notes (list_id, text) SELECT max(id), 'rake' FROM lists")
        try await cluster.converge(anna, ben)
        for conflict in try await ben.engine.conflicts() { try await ben.engine.resolve(conflict.id, with: .retry) }
        try await cluster.converge(ben, anna)
        #expect(
            try await anna.rows("SELECT text, name FROM notes AS n JOIN lists AS l ON l.id = list_id WHERE n.id > 3")
                == ["rake|garden"])
        #expect(try await anna.rows("SELECT text FROM notes WHERE id = 1") == ["oat milk"])
    }

    @Test func `rule 11: a deletion parked after a refused edit keeps the note`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        try await ben.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await ben.write("UPDATE notes SET done = 1 WHERE id = 3")
        try await ben.write("DELETE FROM notes WHERE id = 1")
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT text FROM notes ORDER BY id") == ["goat milk", "bread", "report"])
        #expect(try await ben.engine.conflicts().count == 2)
    }

    @Test func `rule 5: change sets parked together keep the device's order, sent or not`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("UPDATE lists SET name = 'house' WHERE id = 1")
        try await anna.engine.sync()
        // Ben's first change set will be refused, and the second in the same request with it.
        try await ben.write(
            """
            UPDATE lists SET name = 'flat' WHERE id = 1;
            INSERT INTO lists (id, name) VALUES (-1, 'garden')
            """
        )
        try await ben.write("INSERT INTO notes (id, list_id, text) VALUES (-2, -1, 'dig')")
        ben.transport.faults.whileInFlight { try await ben.write("DELETE FROM lists WHERE id = -1") }
        try await ben.engine.sync()
        let conflicts = try await ben.engine.conflicts()
        #expect(conflicts.map(\.number) == conflicts.map(\.number).sorted())
        #expect(
            conflicts.map { $0.records.map { "\($0.operation) \($0.table)" }.sorted() } == [
                ["create lists", "update lists"], ["create notes"], ["delete lists", "delete notes"],
            ]
        )
        // Retries in this order restore Ben's state.
        for conflict in conflicts { try await ben.engine.resolve(conflict.id, with: .retry) }
        try await cluster.converge(ben, anna)
        #expect(try await anna.rows("SELECT name FROM lists ORDER BY id") == ["flat", "work"])
        #expect(try await anna.rows("SELECT text FROM notes WHERE text = 'dig'") == [])
    }
}
