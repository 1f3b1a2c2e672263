import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// A new record that was refused under a temporary id is made again after the server has lent the device ids: the ids
/// after the temporary one, which other records had, stay unused.
@Suite struct FormerTemporaryIDTests {
    private static let schema = "CREATE TABLE book (id INTEGER PRIMARY KEY, title TEXT, code TEXT UNIQUE)"

    /// Anna's file has no lent ids yet when she makes two books, and the first one's code is in use at the server.
    private static func refused() async throws -> (cluster: Cluster, anna: TestDevice, conflict: Conflict) {
        let cluster = try Cluster(schema: schema)
        let anna = try await cluster.device("anna")
        try cluster.writeOutside("INSERT INTO book (title, code) VALUES ('of the server', 'x')")
        try await anna.write("INSERT INTO book (title, code) VALUES ('refused', 'x')")
        try await anna.write("INSERT INTO book (title) VALUES ('accepted')")
        try await anna.engine.sync()
        let conflict = try #require(try await anna.engine.conflicts().first)
        try cluster.writeOutside("UPDATE book SET code = NULL")
        try await anna.engine.sync()
        return (cluster, anna, conflict)
    }

    @Test func `I2: a book that is made after the retry does not replace the book that once had its temporary id`()
        async throws
    {
        let (cluster, anna, conflict) = try await Self.refused()
        try await anna.engine.resolve(conflict.id, .retry)
        try await anna.write("INSERT INTO book (title) VALUES ('new')")
        try await cluster.converge(anna)
        let titles = ["accepted", "new", "of the server", "refused"]
        #expect(try await cluster.rows("SELECT title FROM book ORDER BY title") == titles)
        #expect(try await anna.engine.conflicts().isEmpty)
    }

    @Test func `the book of the retry has a permanent id at once, and keeps it`() async throws {
        let (cluster, anna, conflict) = try await Self.refused()
        try await anna.engine.resolve(conflict.id, .retry)
        let id = try await anna.rows("SELECT id FROM book WHERE title = 'refused'")
        #expect(
            try await anna.rows("SELECT id < \(TemporaryID.reservedMin) FROM book WHERE title = 'refused'") == ["1"]
        )
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT id FROM book WHERE title = 'refused'") == id)
    }
}
