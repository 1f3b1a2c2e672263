import Testing
import Tidemark
import TidemarkTestSupport

/// Text keys that look like other values.
@Suite struct NastyKeyTests {
    @Test(arguments: [#"{"$"#, #"{"$blob":"AP8="}"#, #"{"$text":"eA=="}"#, "[1]", "1", "\"", ""])
    func `F1: a text key that looks like a tagged value stays text`(key: String) async throws {
        let cluster = try Cluster(schema: "CREATE TABLE tags (name TEXT PRIMARY KEY, colour TEXT)")
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        let literal = "'" + key.replacing("'", with: "''") + "'"
        try await anna.write("INSERT INTO tags VALUES (\(literal), 'red')")
        try await cluster.converge(anna, ben)
        try await ben.write("UPDATE tags SET colour = 'blue' WHERE name = \(literal)")
        try await cluster.converge(ben, anna)
        #expect(try await anna.rows("SELECT * FROM tags") == ["\(key)|blue"])
        #expect(try await anna.engine.conflicts().isEmpty)
        try await anna.write("DELETE FROM tags")
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT * FROM tags") == [])
    }
}
