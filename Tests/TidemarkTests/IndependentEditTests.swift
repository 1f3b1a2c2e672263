import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Rule 11: other programs' writes between two syncs are one change set, unless the engine observes
/// the commits or the app declares tables independent.
@Suite struct IndependentEditTests {
    private static let schema = """
        CREATE TABLE note (id INTEGER PRIMARY KEY, v TEXT, label TEXT UNIQUE,
            over INTEGER REFERENCES note ON DELETE SET NULL);
        CREATE TABLE mark (name TEXT COLLATE NOCASE PRIMARY KEY, note INTEGER REFERENCES note);
        CREATE TABLE line (mark TEXT REFERENCES mark, n INTEGER, PRIMARY KEY (mark, n));
        """
    private static let seed = """
        INSERT INTO note VALUES (1, 'a', 'one', NULL), (2, 'b', 'two', NULL), (3, 'c', 'three', NULL);
        INSERT INTO mark VALUES ('x', 3);
        """

    /// A device, and another one that has already changed note 1.
    private func devices() async throws -> (Cluster, TestDevice) {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try ben.writeOutside("UPDATE note SET v = 'theirs' WHERE id = 1")
        try await ben.engine.sync()
        return (cluster, anna)
    }

    /// Declares tables of a device's file independent, as an app does when it opens the file.
    private func declare(_ tables: IndependentTables, _ device: TestDevice) async throws {
        _ = try await SyncEngine(
            device.database, server: "http://cluster.test", transport: device.transport, independent: tables)
    }

    /// The pending change sets, each as its records.
    private func waiting(_ device: TestDevice) async throws -> [String] {
        _ = try await device.engine.checkRows()
        return try await device.rows(
            """
            SELECT group_concat(tbl || key, ' ') FROM (SELECT * FROM tidemark_outbox ORDER BY seq, tbl, key)
            GROUP BY seq ORDER BY seq
            """
        )
    }

    private static let three = [
        "INSERT INTO note (id, v) VALUES (-1, 'new, collides with nobody')", "UPDATE note SET v = 'mine' WHERE id = 1",
        "INSERT INTO note (id, v) VALUES (-2, 'new, too')",
    ]

    @Test func `by default three transactions of the shell are one change set`() async throws {
        let (_, anna) = try await devices()
        for sql in Self.three { try anna.writeOutside(sql) }
        try await anna.engine.sync()
        #expect(try await anna.engine.conflicts().map(\.records.count) == [3])
    }

    @Test func `of edits in independent tables, only the conflicting one is parked`() async throws {
        let (cluster, anna) = try await devices()
        try await declare(.all, anna)
        for sql in Self.three { try anna.writeOutside(sql) }
        try await anna.engine.sync()
        #expect(try await anna.engine.conflicts().map(\.records.count) == [1])
        #expect(try await cluster.rows("SELECT count(*) FROM note WHERE v LIKE 'new%'") == ["2"])
    }

    @Test func `commits observed one by one are separate change sets`() async throws {
        let (cluster, anna) = try await devices()
        for sql in Self.three {
            try anna.writeOutside(sql)
            #expect(try await anna.engine.takeOutsideCommits())
        }
        #expect(try await anna.engine.takeOutsideCommits() == false)
        try await anna.engine.sync()
        #expect(try await anna.engine.conflicts().map(\.records.count) == [1])
        #expect(try await cluster.rows("SELECT count(*) FROM note WHERE v LIKE 'new%'") == ["2"])
    }

    @Test func `a watching engine makes change sets before a sync`() async throws {
        let (_, anna) = try await devices()
        await anna.engine.watchOutside()
        for (count, sql) in Self.three.enumerated() {
            try anna.writeOutside(sql)
            while try await anna.rows("SELECT count(*) FROM tidemark_changeset") != ["\(count + 1)"] {
                await Task.yield()
            }
        }
        await anna.engine.stop()
        #expect(try await waiting(anna) == ["note-1", "note1", "note-2"])
    }

    @Test func `related edits stay together: references, swaps, keys, and through a third record`() async throws {
        let (cluster, anna) = try await devices()
        try await declare(.all, anna)
        try anna.writeOutside(
            """
            UPDATE note SET label = 'spare' WHERE id = 2; UPDATE note SET label = 'TWO' WHERE id = 3;
            UPDATE note SET label = 'three' WHERE id = 2;
            INSERT INTO note (id, v) VALUES (-1, 'parent'); INSERT INTO note (id, v, over) VALUES (-2, 'child', -1);
            INSERT INTO mark VALUES ('y', -2); INSERT INTO line VALUES ('Y', 1);
            UPDATE mark SET name = 'z' WHERE name = 'x';
            INSERT INTO mark VALUES ('alone', NULL);
            UPDATE note SET v = 'alone, too' WHERE id = 1;
            """
        )
        let sets = try await waiting(anna)
        #expect(
            sets.map { Set($0.split(separator: " ").map(String.init)) } == [
                ["note1"], ["note2", "note3", #"mark"x""#, #"mark"z""#],
                ["note-1", "note-2", #"mark"y""#, #"line["Y",1]"#], [#"mark"alone""#],
            ]
        )
        try await anna.engine.sync()
        #expect(try await anna.engine.conflicts().count == 1)
        #expect(try await cluster.rows("SELECT label FROM note WHERE id IN (2, 3)") == ["three", "TWO"])
    }

    @Test func `a deleted parent stays with the children that its deletion cascades to`() async throws {
        let cluster = try Cluster(
            schema: Self.schema, seed: "\(Self.seed) UPDATE note SET over = 1 WHERE id = 2; DELETE FROM mark;")
        let anna = try await cluster.device("anna")
        try await declare(.all, anna)
        try anna.writeOutside("DELETE FROM note WHERE id = 1; UPDATE note SET v = 'x' WHERE id = 3")
        #expect(try await waiting(anna) == ["note1 note2", "note3"])
        try await cluster.converge(anna)
    }

    @Test func `tables that are not independent stay together, with all related edits`() async throws {
        let (_, anna) = try await devices()
        try await declare(["note"], anna)
        try anna.writeOutside(
            """
            INSERT INTO mark VALUES ('y', NULL), ('z', 2); UPDATE note SET v = 'b2' WHERE id = 2;
            UPDATE note SET v = 'c2' WHERE id = 3; UPDATE note SET v = 'mine' WHERE id = 1;
            """
        )
        #expect(try await waiting(anna) == ["note1", #"mark"y" mark"z" note2"#, "note3"])
        // The file stores the declaration until another one replaces it.
        try await declare(.none, anna)
        try anna.writeOutside("UPDATE note SET v = v || '!'")
        #expect(try await waiting(anna).last == "note1 note2 note3")
    }

    @Test func `a transaction of the app stays whole, others are divided`() async throws {
        let (_, anna) = try await devices()
        try await declare(.all, anna)
        try anna.writeOutside("UPDATE mark SET note = 2 WHERE name = 'x'; INSERT INTO mark VALUES ('q', NULL)")
        try await anna.write("UPDATE note SET v = 'app'")
        try anna.writeOutside("INSERT INTO mark VALUES ('r', NULL), ('s', NULL)")
        #expect(try await waiting(anna) == [#"mark"q""#, #"mark"x""#, "note1 note2 note3", #"mark"r""#, #"mark"s""#])
        try await anna.engine.sync()
        let conflict = try #require(try await anna.engine.conflicts().first)
        #expect(conflict.records.count == 3)
        await #expect(throws: TidemarkError.self) { try await anna.engine.divide(conflict.id) }
    }

    @Test func `rule 12: a sent change set is never divided`() async throws {
        let (_, anna) = try await devices()
        for sql in Self.three { try anna.writeOutside(sql) }
        anna.transport.faults.add(.requestLost)
        await #expect(throws: TidemarkError.self) { try await anna.engine.sync() }
        let frozen = try await anna.rows("SELECT id, wire FROM tidemark_changeset")
        try await declare(.all, anna)
        try anna.writeOutside("UPDATE note SET v = 'later' WHERE id = 2")
        _ = try await waiting(anna)
        #expect(try await anna.rows("SELECT id, wire FROM tidemark_changeset LIMIT 1") == frozen)
        try await anna.engine.sync()
        #expect(try await anna.engine.conflicts().map(\.records.count) == [3])
    }

    @Test func `a parked change set is divided, and edits without a conflict are sent again`() async throws {
        let (cluster, anna) = try await devices()
        for sql in Self.three { try anna.writeOutside(sql) }
        try anna.writeOutside("INSERT INTO mark VALUES ('of new', -1); UPDATE mark SET note = 1 WHERE name = 'x'")
        try await anna.engine.sync()
        #expect(try await anna.rows("SELECT count(*) FROM note") == ["3"])
        let parked = try #require(try await anna.engine.conflicts().first)
        #expect(parked.records.count == 5)
        let remaining = try await anna.engine.divide("\(parked.number)")
        // The mark refers to the contested note, and stays with it.
        #expect(remaining.map { $0.records.map(\.key).sorted() } == [[#""x""#, "1"]])
        #expect(remaining.map(\.id) == [parked.id])
        #expect(try await anna.engine.status().pendingChangeSets == 2)
        try await anna.engine.sync()
        #expect(try await anna.engine.conflicts().map(\.id) == [parked.id])
        #expect(
            try await cluster.rows("SELECT v FROM note JOIN mark ON note = note.id WHERE name = 'of new'") == [
                "new, collides with nobody"
            ])
        await #expect(throws: TidemarkError.self) { try await anna.engine.divide(parked.id) }
        try await anna.engine.resolve(parked.id, with: .retry)
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT v FROM note WHERE id = 1") == ["mine"])
    }
}
