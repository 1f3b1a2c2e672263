import GRDB
import Synchronization
import Testing
import Tidemark
import TidemarkTestSupport

/// The change sets that a device makes of its edits: number, order and contents.
@Suite struct ChangeSetTests {
    private static let schema = """
        CREATE TABLE lists (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
        CREATE TABLE notes (id INTEGER PRIMARY KEY,
            list_id INTEGER REFERENCES lists, text TEXT, done INTEGER DEFAULT 0);
        CREATE INDEX notes_list ON notes (list_id);
        """
    private static let seed = """
        INSERT INTO lists (name) VALUES ('home');
        INSERT INTO notes (list_id, text) VALUES (1, 'milk'), (1, 'bread'), (1, 'salt')
        """

    private static func device() async throws -> TestDevice {
        try await Cluster(schema: schema, seed: seed).device("anna")
    }

    @Test func `A10, rule 5: three transactions are three change sets in their order`() async throws {
        let anna = try await Self.device()
        try await anna.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await anna.write("DELETE FROM notes WHERE id = 3")
        try await anna.write("UPDATE notes SET done = 1 WHERE id = 2")
        try await anna.engine.sync()
        #expect(try anna.lastSent == [["update notes 1 (text)"], ["delete notes 3"], ["update notes 2 (done)"]])
    }

    @Test func `B5: adjacent transactions on one note are merged`() async throws {
        let anna = try await Self.device()
        try await anna.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await anna.write("UPDATE notes SET done = 1 WHERE id = 1")
        try await anna.write("UPDATE notes SET done = 1 WHERE id = 2")
        try await anna.engine.sync()
        #expect(try anna.lastSent == [["update notes 1 (done, text)"], ["update notes 2 (done)"]])
    }

    @Test func `rule 2: one transaction over two tables is one change set, never split`() async throws {
        let anna = try await Self.device()
        try await anna.write(
            """
            INSERT INTO lists (name) VALUES ('garden');
            INSERT INTO notes (list_id, text) VALUES (last_insert_rowid(), 'rake');
            UPDATE notes SET done = 1 WHERE id <= 2;
            DELETE FROM notes WHERE id = 3
            """
        )
        try await anna.engine.sync()
        #expect(
            try anna.lastSent == [
                [
                    "create lists new (name)", "create notes new (done, list_id, text)", "update notes 1 (done)",
                    "update notes 2 (done)", "delete notes 3",
                ]
            ]
        )
    }

    @Test func `F1: another program's writes between two syncs are one change set`() async throws {
        let anna = try await Self.device()
        try anna.writeOutside("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try anna.writeOutside("UPDATE notes SET done = 1 WHERE id = 2")
        try await anna.engine.sync()
        #expect(try anna.lastSent == [["update notes 1 (text)", "update notes 2 (done)"]])
    }

    @Test func `F1: the app's own transactions are not merged with another program's`() async throws {
        let anna = try await Self.device()
        try await anna.write("UPDATE notes SET done = 1 WHERE id = 1")
        try await anna.write("UPDATE notes SET done = 1 WHERE id = 2")
        try anna.writeOutside("UPDATE notes SET done = 1 WHERE id = 3")
        try await anna.engine.sync()
        #expect(try anna.lastSent == [["update notes 1 (done)"], ["update notes 2 (done)"], ["update notes 3 (done)"]])
    }

    @Test func `B5: a note created and deleted before a sync is not sent`() async throws {
        let anna = try await Self.device()
        try await anna.write("INSERT INTO notes (text) VALUES ('gone before anybody saw')")
        try await anna.write("UPDATE notes SET done = 1 WHERE id = 1")
        try await anna.write("DELETE FROM notes WHERE text LIKE 'gone%'")
        try await anna.engine.sync()
        #expect(try anna.lastSent == [["update notes 1 (done)"]])
    }

    @Test func `B5: a note created and deleted, and nothing else, makes no change set`() async throws {
        let anna = try await Self.device()
        try await anna.write("INSERT INTO notes (text) VALUES ('gone')")
        try await anna.write("DELETE FROM notes WHERE text = 'gone'")
        try await anna.engine.sync()
        #expect(try anna.sent.allSatisfy(\.isEmpty))
        #expect(try await anna.engine.status().pendingChangeSets == 0)
    }

    @Test func `A10: two notes edited in turn make one set an edit, each on its own base`() async throws {
        let anna = try await Self.device()
        try await anna.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await anna.write("UPDATE notes SET text = 'rye' WHERE id = 2")
        try await anna.write("UPDATE notes SET text = 'rice milk', done = 1 WHERE id = 1")
        try await anna.write("UPDATE notes SET text = 'bread' WHERE id = 2")
        try await anna.write("UPDATE notes SET done = 1 WHERE id = 3")
        try await anna.engine.sync()
        #expect(
            try anna.lastSent == [
                ["update notes 1 (text)"], ["update notes 2 (text)"], ["update notes 1 (done, text)"],
                ["update notes 2 (text)"], ["update notes 3 (done)"],
            ]
        )
        let sent = try #require(try anna.sent.last { !$0.isEmpty })
        #expect(sent.map(\.after) == [[], [], [sent[0].id], [sent[1].id], []])
        #expect(
            try await anna.rows("SELECT text, done FROM notes ORDER BY id") == ["rice milk|1", "bread|0", "salt|1"])
    }

    @Test func `B5: a transaction without a net effect among others makes no change set`() async throws {
        let anna = try await Self.device()
        try await anna.write("UPDATE notes SET done = 1 WHERE id = 1")
        try await anna.write("UPDATE notes SET text = 'rye' WHERE id = 2")
        try await anna.write("UPDATE notes SET text = 'bread' WHERE id = 2")
        try await anna.write("UPDATE notes SET done = 1 WHERE id = 3")
        try await anna.engine.sync()
        #expect(try anna.lastSent == [["update notes 1 (done)"], ["update notes 3 (done)"]])
    }

    /// The number of runs of each statement for sending this many transactions and applying the
    /// answer.
    private static func statements(_ count: Int) async throws -> [String: Int] {
        let anna = try await device()
        for number in 1...count { try await anna.write("INSERT INTO notes (list_id, text) VALUES (1, '\(number)')") }
        let counted = Mutex<[String: Int]>([:])
        try await anna.database.write { db in
            db.trace { event in
                // SQLite traces the statements of triggers as comments.
                guard !"\(event)".hasPrefix("--") else { return }
                counted.withLock { $0["\(event)", default: 0] += 1 }
            }
        }
        try await anna.engine.sync()
        try await anna.database.write { db in db.trace(options: []) }
        #expect(try anna.lastSent.count == count)
        return counted.withLock { $0 }
    }

    @Test func `A2: work common to many transactions is done once`() async throws {
        let few = try await Self.statements(10)
        let many = try await Self.statements(60)
        // SQLite reads table definitions again if other tests have displaced them in memory: a few
        // times more or less, but not once for each change set. Cached statements write each captured record, and each
        // id of an answer.
        let growing = many.filter { sql, count in
            count - few[sql, default: 0] >= 25 && !sql.hasPrefix("INSERT OR REPLACE INTO temp.tidemark_assigned")
                && !sql.hasPrefix("INSERT INTO tidemark_outbox")
        }
        #expect(growing == ["UPDATE tidemark_changeset SET wire = ? WHERE seq = ?": 60])
    }

    @Test func `B5: a child's change set depends on its parent's, others on none`() async throws {
        let anna = try await Self.device()
        try await anna.write("INSERT INTO lists (name) VALUES ('garden')")
        try await anna.write("UPDATE notes SET done = 1 WHERE id = 1")
        try await anna.write("INSERT INTO notes (list_id, text) SELECT max(id), 'rake' FROM lists")
        try await anna.engine.sync()
        let sent = try #require(try anna.sent.last { !$0.isEmpty })
        #expect(sent.count == 3)
        #expect(sent[0].after.isEmpty && sent[1].after.isEmpty)
        #expect(sent[2].after == [sent[0].id])
    }

    @Test func `B6: only changed columns are sent`() async throws {
        let anna = try await Self.device()
        try await anna.write("UPDATE notes SET text = 'salt', done = 1, list_id = 1 WHERE id = 3")
        try await anna.engine.sync()
        #expect(try anna.lastSent == [["update notes 3 (done)"]])
    }

    @Test func `B6: an update without effect, or reverted, is not sent`() async throws {
        let anna = try await Self.device()
        try await anna.write("UPDATE notes SET text = text, done = 0")
        try await anna.write("UPDATE notes SET done = 1 WHERE id = 1")
        try await anna.write("UPDATE notes SET done = 0 WHERE id = 1")
        try await anna.engine.sync()
        #expect(try anna.sent.allSatisfy(\.isEmpty))
    }

    @Test func `A10: a transaction that is rolled back leaves no trace`() async throws {
        let anna = try await Self.device()
        struct Changed: Error {}
        await #expect(throws: Changed.self) {
            try await anna.database.write { db in
                try db.execute(sql: "UPDATE notes SET done = 1")
                throw Changed()
            }
        }
        try await anna.database.write { db in
            try db.execute(sql: "UPDATE notes SET done = 1 WHERE id = 1")
            try db.inSavepoint {
                try db.execute(sql: "DELETE FROM notes WHERE id = 2")
                return .rollback
            }
        }
        try await anna.write("UPDATE notes SET done = 1 WHERE id = 3")
        try await anna.engine.sync()
        #expect(try anna.lastSent == [["update notes 1 (done)"], ["update notes 3 (done)"]])
    }

    @Test func `rule 2: a failed statement in a transaction does not split the next one`() async throws {
        let anna = try await Self.device()
        try await anna.database.write { db in
            try db.execute(sql: "UPDATE notes SET done = 1 WHERE id = 1")
            // Captured before SQLite finds that there is no such list, and rolled back.
            #expect(throws: DatabaseError.self) {
                try db.execute(sql: "INSERT INTO notes (list_id, text) VALUES (77, 'rake')")
            }
        }
        try await anna.write("UPDATE notes SET done = 1 WHERE id = 2; UPDATE notes SET done = 1 WHERE id = 3")
        try await anna.engine.sync()
        #expect(try anna.lastSent == [["update notes 1 (done)"], ["update notes 2 (done)", "update notes 3 (done)"]])
    }

    @Test func `A2: one round is one request, whatever the outbox holds`() async throws {
        let anna = try await Self.device()
        for id in 1...3 { try await anna.write("UPDATE notes SET done = 1 WHERE id = \(id)") }
        try await anna.write("INSERT INTO lists (name) VALUES ('garden')")
        try await anna.engine.sync()
        #expect(anna.transport.faults.requests.count == 1)
    }

    @Test func `A3: a plain insert and a negative id may both refer to the new list`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write(
            """
            INSERT INTO lists VALUES (-10, 'garden');
            INSERT INTO notes (id, list_id, text) VALUES (-11, -10, 'rake');
            INSERT INTO lists (name) VALUES ('attic');
            INSERT INTO notes (list_id, text) VALUES (last_insert_rowid(), 'moths')
            """
        )
        try await cluster.converge(anna, ben)
        let joined = """
            SELECT n.id, n.text, l.id, l.name FROM notes AS n JOIN lists AS l ON l.id = list_id
            WHERE n.id > 3 ORDER BY n.text
            """
        let rows = try await ben.rows(joined)
        #expect(rows.map { $0.split(separator: "|").last } == ["attic", "garden"])
        #expect(try await anna.rows(joined) == rows)
        #expect(try await ben.rows("SELECT id FROM notes ORDER BY id") == ["1", "2", "3", "4", "5"])
    }

    @Test func `F1: an id that no device can hold is refused, any other one is taken`() async throws {
        let anna = try await Self.device()
        #expect(throws: DatabaseError.self) {
            try anna.writeOutside("INSERT INTO notes (id, text) VALUES (1 << 53, 'whose?')")
        }
        #expect(throws: DatabaseError.self) { try anna.writeOutside("UPDATE notes SET id = 1 << 53 WHERE id = 1") }
        #expect(try await anna.rows("SELECT id FROM notes") == ["1", "2", "3"])
        try anna.writeOutside("INSERT INTO notes (id, text) VALUES (1795440614030, 'chosen')")
        try await anna.engine.sync()
        #expect(try await anna.rows("SELECT id FROM notes WHERE text = 'chosen'") == ["1795440614030"])
    }
}
