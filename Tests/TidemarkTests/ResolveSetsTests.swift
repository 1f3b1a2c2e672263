import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Resolving whole change sets: several records, records that are gone, and what was parked along.
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

    private static func pair() async throws -> (
        cluster: Cluster, anna: TestDevice, ben: TestDevice
    ) {
        let cluster = try Cluster(schema: schema, seed: seed)
        return (cluster, try await cluster.device("anna"), try await cluster.device("ben"))
    }

    /// Ben renamed a list and worked on it while Anna deleted it.
    private static func deletedMeanwhile() async throws -> (
        cluster: Cluster, anna: TestDevice, ben: TestDevice
    ) {
        let (cluster, anna, ben) = try await pair()
        try await anna.write("DELETE FROM lists WHERE id = 1")
        try await ben.write(
            """
            UPDATE lists SET name = 'house' WHERE id = 1;
            UPDATE notes SET text = 'oat milk' WHERE id = 1;
            INSERT INTO notes (list_id, text) VALUES (1, 'soap')
            """
        )
        try await ben.write("UPDATE notes SET done = 1 WHERE text = 'soap'")
        try await cluster.converge(anna, ben)
        return (cluster, anna, ben)
    }

    @Test func `A6: merging writes my values and the given ones, and leaves what I leave out`()
        async throws
    {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        try await anna.write("UPDATE notes SET text = 'rye bread' WHERE id = 2")
        try await ben.write("UPDATE notes SET text = 'oat milk', done = 1 WHERE id = 1")
        try await ben.write("UPDATE notes SET text = 'white bread' WHERE id = 2")
        try await ben.write("UPDATE notes SET text = 'essay' WHERE id = 3")
        try await cluster.converge(anna, ben)
        let parked = try await ben.engine.conflicts()
        let both = MergedRecord(
            table: "notes",
            key: "1",
            columns: ["text": "oat and goat milk".databaseValue]
        )
        try await ben.engine.resolve(parked[0].id, .merge([both]))
        let theirs = MergedRecord(table: "notes", key: "2", columns: nil)
        try await ben.engine.resolve(parked[1].id, .merge([theirs]))
        try await cluster.converge(ben, anna)
        #expect(
            try await anna.rows("SELECT text, done FROM notes ORDER BY id")
                == ["oat and goat milk|1", "rye bread|0", "essay|0"]
        )
        #expect(try await ben.engine.conflicts().isEmpty)
    }

    @Test func `A6: a merge for a record or a column that is not there changes nothing`()
        async throws
    {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        try await ben.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await cluster.converge(anna, ben)
        for (key, column) in [("9", "text"), ("1", "colour")] {
            let wrong = MergedRecord(table: "notes", key: key, columns: [column: "x".databaseValue])
            await #expect(throws: TidemarkError.self) {
                try await ben.engine.resolve("1", .merge([wrong]))
            }
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
        try await ben.engine.resolve("1", .merge([done]))
        try await cluster.converge(ben, anna)
        #expect(try await anna.rows("SELECT text, done FROM notes WHERE id = 1") == ["goat milk|1"])
    }

    @Test func `values are given in the JSON of the protocol, exactly`() throws {
        let columns = try MergedRecord.columns(
            json: #"{"a":null,"b":9007199254740993,"c":1.5,"d":"x\u00e9","e":{"$blob":"AP8="}}"#
        )
        #expect(
            columns == [
                "a": .null, "b": 9_007_199_254_740_993.databaseValue, "c": 1.5.databaseValue,
                "d": "xé".databaseValue, "e": Data([0, 255]).databaseValue,
            ]
        )
        #expect(throws: TidemarkError.self) { try MergedRecord.columns(json: "text=1") }
        #expect(throws: TidemarkError.self) { try MergedRecord.columns(json: #"{"a":[1]}"#) }
    }
}
