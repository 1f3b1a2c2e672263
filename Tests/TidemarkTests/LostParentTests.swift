import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Two people choose one number for two new books, and one of them gives the book up, but not its pages.
@Suite struct LostParentTests {
    private static let schema = """
        CREATE TABLE book (id INTEGER PRIMARY KEY, title TEXT);
        CREATE TABLE page (id INTEGER PRIMARY KEY, book_id INTEGER REFERENCES book ON DELETE CASCADE, text TEXT);
        """
    private static let pages = "SELECT book.title, page.text FROM page JOIN book ON book.id = book_id"

    /// Anna makes a book and a page of it, by some transactions, after Ben has made a book of that number.
    private static func refused(_ transactions: String...) async throws -> (
        cluster: Cluster, anna: TestDevice, ben: TestDevice
    ) {
        let cluster = try Cluster(schema: schema, seed: "INSERT INTO book VALUES (1, 'old')")
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await cluster.converge(anna, ben)
        try await ben.write("INSERT INTO book VALUES (500, 'of Ben')")
        try await ben.engine.sync()
        for transaction in transactions { try await anna.write(transaction) }
        try await anna.engine.sync()
        return (cluster, anna, ben)
    }

    private static func values(_ json: String) throws -> [String: DatabaseValue] {
        try MergedRecord.columns(json: json)
    }

    @Test func `rule 1: a page does not become a stranger's by leaving its own book out`() async throws {
        let (cluster, anna, ben) = try await Self.refused(
            "INSERT INTO book VALUES (500, 'of Anna'); INSERT INTO page (book_id, text) VALUES (500, 'a page of Anna')")
        let conflict = try #require(try await anna.engine.conflicts().first)
        let page = try #require(conflict.records.first { $0.table == "page" })
        let book = MergedRecord(table: "book", key: "500", columns: nil)
        let error = await #expect(throws: TidemarkError.self) {
            try await anna.engine.resolve(conflict, with: .merge([book]))
        }
        #expect(error?.message.contains("page \(page.key) refers to book 500") == true)
        #expect(try await anna.rows(Self.pages) == [])
        // The person names the book.
        let chosen = MergedRecord(table: "page", key: page.key, columns: try Self.values(#"{"book_id":500}"#))
        try await anna.engine.resolve(conflict, with: .merge([book, chosen]))
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows(Self.pages) == ["of Ben|a page of Anna"])
    }

    @Test func `rule 1: a page does not become a stranger's by giving its own book up first`() async throws {
        let (cluster, anna, ben) = try await Self.refused(
            "INSERT INTO book VALUES (500, 'of Anna')",
            "INSERT INTO page (book_id, text) VALUES (500, 'a page of Anna')")
        let first = try #require(try await anna.engine.conflicts().first)
        try await anna.engine.resolve(first, with: .accept)
        let second = try #require(try await anna.engine.conflicts().first)
        let reason = try #require(second.reasons.last)
        #expect(reason.message.contains("book 500 is another record"))
        let error = await #expect(throws: TidemarkError.self) {
            try await anna.engine.resolve(second, with: .retry)
        }
        #expect(error?.message.contains("has nothing to refer to") == true)
        #expect(try await anna.engine.conflicts().count == 1)
        let page = try #require(second.records.first { $0.table == "page" })
        let chosen = MergedRecord(table: "page", key: page.key, columns: try Self.values(#"{"book_id":1}"#))
        try await anna.engine.resolve(second, with: .merge([chosen]))
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows(Self.pages) == ["old|a page of Anna"])
    }

    @Test func `a page goes on referring to a book whose text key two people chose`() async throws {
        let cluster = try Cluster(
            schema: """
                CREATE TABLE book (code TEXT PRIMARY KEY, title TEXT);
                CREATE TABLE page (id INTEGER PRIMARY KEY, book TEXT REFERENCES book, text TEXT);
                """
        )
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await ben.write("INSERT INTO book VALUES ('b', 'of Ben')")
        try await ben.engine.sync()
        try await anna.write("INSERT INTO book VALUES ('b', 'of Anna')")
        try await anna.write("INSERT INTO page (book, text) VALUES ('b', 'a page')")
        try await anna.engine.sync()
        let first = try #require(try await anna.engine.conflicts().first)
        try await anna.engine.resolve(first, with: .accept)
        let second = try #require(try await anna.engine.conflicts().first)
        try await anna.engine.resolve(second, with: .retry)
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT title FROM page JOIN book ON code = book") == ["of Ben"])
    }
}
