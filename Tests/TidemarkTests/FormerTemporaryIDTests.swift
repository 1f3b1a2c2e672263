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
        try await anna.engine.resolve(conflict.id, with: .retry)
        try await anna.write("INSERT INTO book (title) VALUES ('new')")
        try await cluster.converge(anna)
        let titles = ["accepted", "new", "of the server", "refused"]
        #expect(try await cluster.rows("SELECT title FROM book ORDER BY title") == titles)
        #expect(try await anna.engine.conflicts().isEmpty)
    }

    @Test func `the book of the retry has a permanent id at once, and keeps it`() async throws {
        let (cluster, anna, conflict) = try await Self.refused()
        try await anna.engine.resolve(conflict.id, with: .retry)
        let id = try await anna.rows("SELECT id FROM book WHERE title = 'refused'")
        #expect(
            try await anna.rows("SELECT id < \(TemporaryID.reservedMin) FROM book WHERE title = 'refused'") == ["1"])
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT id FROM book WHERE title = 'refused'") == id)
    }

    private static let titles = "SELECT title FROM book ORDER BY title"

    /// Anna makes two books before her file has lent ids, and syncs; then she saves the first one again under its old
    /// id, as object-relational mappers do.
    ///
    /// - Returns: The old ids, which follow each other.
    private static func savedAgain() async throws -> (cluster: Cluster, anna: TestDevice, ids: [Int64]) {
        let cluster = try Cluster(schema: schema)
        let anna = try await cluster.device("anna")
        try await anna.write("INSERT INTO book (title) VALUES ('first'), ('second')")
        let ids = try await anna.rows("SELECT id FROM book ORDER BY id").compactMap { Int64($0) }
        try #require(ids.count == 2 && ids[0] >= TemporaryID.reservedMin && ids[1] == ids[0] + 1)
        try await cluster.converge(anna)
        try anna.writeOutside("INSERT INTO book (id, title) VALUES (\(ids[0]), 'first, again')")
        return (cluster, anna, ids)
    }

    @Test func `I2: SQLite draws the old id of the second book for a new one, and the second book stays as it is`()
        async throws
    {
        let (cluster, anna, ids) = try await Self.savedAgain()
        try anna.writeOutside("INSERT INTO book (title) VALUES ('new')")
        try #require(try await anna.rows("SELECT id FROM book WHERE title = 'new'") == ["\(ids[1])"])
        try await cluster.converge(anna)
        #expect(try await cluster.rows(Self.titles) == ["first, again", "new", "second"])
        #expect(try await anna.engine.conflicts().isEmpty)
    }

    @Test func `I2: an object whose old id two books had is saved once more: neither book takes its values`()
        async throws
    {
        let (cluster, anna, ids) = try await Self.savedAgain()
        try anna.writeOutside("INSERT INTO book (title) VALUES ('new')")
        try await cluster.converge(anna)
        for title in ["third", "fourth"] {
            try anna.writeOutside("INSERT INTO book (id, title) VALUES (\(ids[1]), '\(title)')")
            try await cluster.converge(anna)
        }
        #expect(try await cluster.rows(Self.titles) == ["first, again", "fourth", "new", "second", "third"])
        #expect(try await anna.engine.conflicts().isEmpty)
    }

    @Test func `both objects are saved again in the order of their old ids: both books take the new values`()
        async throws
    {
        let (cluster, anna, ids) = try await Self.savedAgain()
        try anna.writeOutside(
            """
            INSERT INTO book (id, title) VALUES (\(ids[1]), 'second, again');
            INSERT INTO book (id, title) VALUES (\(ids[1]), 'second, twice')
                ON CONFLICT (id) DO UPDATE SET title = excluded.title;
            """
        )
        try await cluster.converge(anna)
        #expect(try await cluster.rows(Self.titles) == ["first, again", "second, twice"])
        #expect(try await anna.engine.conflicts().isEmpty)
    }
}
