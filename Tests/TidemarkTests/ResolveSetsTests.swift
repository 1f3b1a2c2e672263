import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Resolving whole change sets: several records, deleted records, and dependents parked along.
@Suite struct ResolveSetsTests {
    private static let schema = """
        CREATE TABLE lists (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
        CREATE TABLE notes (id INTEGER PRIMARY KEY,
            list_id INTEGER REFERENCES lists ON DELETE CASCADE, text TEXT, done INTEGER DEFAULT 0);
        CREATE INDEX notes_list ON notes (list_id);
        """
    private static let seed = """
        INSERT INTO lists (name) VALUES ('home'), ('work');
        INSERT INTO notes (list_id, text) VALUES (1, 'milk'), (1, 'bread'), (2, 'report')
        """

    private static func pair() async throws -> (cluster: Cluster, anna: TestDevice, ben: TestDevice) {
        let cluster = try Cluster(schema: schema, seed: seed)
        return (cluster, try await cluster.device("anna"), try await cluster.device("ben"))
    }

    /// Ben renamed a list and edited it while Anna deleted it.
    private static func deletedMeanwhile() async throws -> (cluster: Cluster, anna: TestDevice, ben: TestDevice) {
        let (cluster, anna, ben) = try await pair()
        try await anna.write("DELETE FROM lists WHERE id = 1")
        try await ben.write(
            """
            UPDATE lists SET name = 'house' WHERE id = 1;
            UPDATE notes SET text = 'oat milk' WHERE id = 1;
            INSERT INTO notes (list_id, text) VALUES (1, 'soap')
            """
        )
        // In between, because adjacent edits of one record become one change set.
        try await ben.write("UPDATE notes SET text = 'essay' WHERE id = 3")
        try await ben.write("UPDATE notes SET done = 1 WHERE text = 'soap'")
        try await cluster.converge(anna, ben)
        return (cluster, anna, ben)
    }

    @Test func `A6: a retry recreates a deleted list with its notes, under new ids everywhere`() async throws {
        let (cluster, anna, ben) = try await Self.deletedMeanwhile()
        let parked = try await ben.engine.conflicts()
        #expect(parked.count == 2)
        #expect(parked.last?.after == parked.prefix(1).map(\.id))
        let next = try await ben.engine.resolve(try #require(parked.first).id, with: .retry)
        #expect(next.map(\.id) == parked.dropFirst().map(\.id))
        for conflict in next { try await ben.engine.resolve(conflict.id, with: .retry) }
        try await cluster.converge(ben, anna)
        #expect(
            try await anna.rows(
                """
                SELECT l.name, n.text, n.done FROM notes AS n JOIN lists AS l ON l.id = n.list_id
                ORDER BY l.name, n.text
                """
            ) == ["house|oat milk|0", "house|soap|1", "work|essay|0"]
        )
        #expect(try await anna.rows("SELECT count(*) FROM lists WHERE id = 1") == ["0"])
        #expect(try await ben.engine.conflicts().isEmpty)
    }

    @Test func `rule 11: dependents of a parked change set cannot be retried before it`() async throws {
        let (_, _, ben) = try await Self.deletedMeanwhile()
        let parked = try await ben.engine.conflicts()
        let last = try #require(parked.last)
        await #expect { try await ben.engine.resolve(last.id, with: .retry) } throws: { error in
            (error as? TidemarkError)?.fix == "Resolve conflict 1 first."
        }
        #expect(try await ben.engine.conflicts().count == 2)
        let remaining = try await ben.engine.resolve(try #require(parked.first).id, with: .accept)
        #expect(remaining.map(\.id) == [last.id])
        try await ben.engine.resolve(last.id, with: .accept)
        #expect(try await ben.engine.conflicts().isEmpty)
    }

    @Test func `A4: a parked new list keeps its temporary id for references to it`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("INSERT INTO lists (name) VALUES ('garden')")
        try await ben.write("INSERT INTO lists (name) VALUES ('garden')")
        try await ben.write("INSERT INTO notes (list_id, text) SELECT max(id), 'rake' FROM lists")
        try await cluster.converge(anna, ben)
        let parked = try await ben.engine.conflicts()
        #expect(parked.map(\.reasons.first?.rule) == ["unique", "predecessor"])

        // Unchanged it still conflicts; under another name it does not.
        let head = try #require(parked.first)
        await #expect(throws: TidemarkError.self) { try await ben.engine.resolve(head.id, with: .retry) }
        let list = try #require(head.records.first { $0.operation == "create" })
        let renamed = MergedRecord(table: "lists", key: list.key, columns: ["name": "allotment".databaseValue])
        let next = try await ben.engine.resolve(head.id, with: .merge([renamed]))
        for conflict in next { try await ben.engine.resolve(conflict.id, with: .retry) }
        try await cluster.converge(ben, anna)
        #expect(
            try await anna.rows("SELECT name, text FROM notes AS n JOIN lists AS l ON l.id = list_id WHERE n.id > 3")
                == ["allotment|rake"])
    }

    @Test func `A6: a merge writes my values and explicit ones, and omits the columns I omit`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        try await anna.write("UPDATE notes SET text = 'rye bread' WHERE id = 2")
        try await ben.write("UPDATE notes SET text = 'oat milk', done = 1 WHERE id = 1")
        try await ben.write("UPDATE notes SET text = 'white bread' WHERE id = 2")
        try await ben.write("UPDATE notes SET text = 'essay' WHERE id = 3")
        try await cluster.converge(anna, ben)
        let parked = try await ben.engine.conflicts()
        let both = MergedRecord(table: "notes", key: "1", columns: ["text": "oat and goat milk".databaseValue])
        try await ben.engine.resolve(parked[0].id, with: .merge([both]))
        let theirs = MergedRecord(table: "notes", key: "2", columns: nil)
        try await ben.engine.resolve(parked[1].id, with: .merge([theirs]))
        try await cluster.converge(ben, anna)
        #expect(
            try await anna.rows("SELECT text, done FROM notes ORDER BY id") == [
                "oat and goat milk|1", "rye bread|0", "essay|0",
            ]
        )
        #expect(try await ben.engine.conflicts().isEmpty)
    }

    @Test func `A6: a merge with an unknown record or column changes nothing`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        try await ben.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await cluster.converge(anna, ben)
        for (key, column) in [("9", "text"), ("1", "colour")] {
            let wrong = MergedRecord(table: "notes", key: key, columns: [column: "x".databaseValue])
            await #expect(throws: TidemarkError.self) { try await ben.engine.resolve("1", with: .merge([wrong])) }
        }
        #expect(try await ben.engine.conflicts().count == 1)
        #expect(try await ben.rows("SELECT text FROM notes WHERE id = 1") == ["goat milk"])
    }

    @Test func `A6: a parked deletion can be merged into an edit`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        try await ben.write("DELETE FROM notes WHERE id = 1")
        try await cluster.converge(anna, ben)
        let done = MergedRecord(table: "notes", key: "1", columns: ["done": 1.databaseValue])
        try await ben.engine.resolve("1", with: .merge([done]))
        try await cluster.converge(ben, anna)
        #expect(try await anna.rows("SELECT text, done FROM notes WHERE id = 1") == ["goat milk|1"])
    }

    @Test func `explicit values use the protocol's JSON, exactly`() throws {
        let columns = try MergedRecord.columns(
            json: #"{"a":null,"b":9007199254740993,"c":1.5,"d":"x\u00e9","e":{"$blob":"AP8="}}"#)
        #expect(
            columns == [
                "a": .null, "b": 9_007_199_254_740_993.databaseValue, "c": 1.5.databaseValue, "d": "xé".databaseValue,
                "e": Data([0, 255]).databaseValue,
            ]
        )
        #expect(throws: TidemarkError.self) { try MergedRecord.columns(json: "text=1") }
        #expect(throws: TidemarkError.self) { try MergedRecord.columns(json: #"{"a":[1]}"#) }
    }
}
