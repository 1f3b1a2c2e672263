import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Another program at the server takes a lent id, and the refusal reaches the device late: the device makes its
/// change set again under another id, but over nothing that its author had not seen.
@Suite struct TakenIDTests {
    private static let schema = """
        CREATE TABLE book (
            id INTEGER PRIMARY KEY, title TEXT, shelf TEXT, copies INTEGER NOT NULL DEFAULT 0, code TEXT UNIQUE);
        CREATE TABLE page (
            id INTEGER PRIMARY KEY, book_id INTEGER NOT NULL REFERENCES book ON DELETE CASCADE, text TEXT);
        CREATE INDEX page_book ON page (book_id);
        """
    private static let seed = """
        INSERT INTO book (title, shelf) VALUES ('old', 'top'), ('older', 'low');
        INSERT INTO page (book_id, text) VALUES (2, 'a page');
        """
    private static let old = "SELECT title, shelf, copies FROM book WHERE id = 1"
    private static let new = "SELECT title FROM book WHERE id > 2 ORDER BY title"

    /// Anna's transaction creates a book whose id the server's program takes, and does `edit`.
    ///
    /// The server refuses it for the id alone. Anna does not hear it, and Ben then does `later`.
    private static func refused(_ edit: String, later: String, policies: [String: ConflictPolicy] = [:]) async throws
        -> (cluster: Cluster, anna: TestDevice, ben: TestDevice)
    {
        let cluster = try Cluster(schema: schema, seed: seed, policies: policies)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.engine.sync()
        try await anna.write("INSERT INTO book (title) VALUES ('first')")
        try await anna.engine.sync()
        try cluster.writeOutside("INSERT INTO book (title) VALUES ('of the server')")
        try await anna.write("INSERT INTO book (title) VALUES ('of anna'); \(edit)")
        anna.transport.faults.add(.answerLost)
        await anna.syncInVain()
        try await ben.engine.sync()
        try await ben.write(later)
        try await ben.engine.sync()
        try await anna.engine.sync()
        return (cluster, anna, ben)
    }

    @Test func `A6, rule 1: an update in the change set does not overwrite a title that its author had not seen`()
        async throws
    {
        let (cluster, anna, ben) = try await Self.refused(
            "UPDATE book SET title = 'anna' WHERE id = 1", later: "UPDATE book SET title = 'ben' WHERE id = 1")
        #expect(try await cluster.rows(Self.old) == ["ben|top|0"])
        let conflict = try #require(try await anna.engine.conflicts().first)
        #expect(conflict.records.contains { $0.key == "1" && $0.mine == #"{"title":"anna"}"# })
        // A person decides. The book is another one than the server's, so it gets an id of its own.
        try await anna.engine.resolve(conflict, with: .retry)
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows(Self.old) == ["anna|top|0"])
        #expect(try await cluster.rows(Self.new) == ["first", "of anna", "of the server"])
        #expect(try await anna.engine.conflicts().isEmpty)
    }

    @Test func `A6, rule 1: a deletion in the change set does not delete an edit that its author had not seen`()
        async throws
    {
        let (cluster, anna, _) = try await Self.refused(
            "DELETE FROM book WHERE id = 1", later: "UPDATE book SET title = 'ben' WHERE id = 1")
        #expect(try await cluster.rows(Self.old) == ["ben|top|0"])
        #expect(try await anna.engine.conflicts().count == 1)
    }

    @Test func `A6, rule 1: a deletion in the change set does not delete children that its author had not seen`()
        async throws
    {
        let (cluster, anna, _) = try await Self.refused(
            "DELETE FROM book WHERE id = 1", later: "INSERT INTO page (book_id) VALUES (1)")
        #expect(try await cluster.rows("SELECT book_id FROM page ORDER BY book_id") == ["1", "2"])
        #expect(try await anna.engine.conflicts().count == 1)
    }

    @Test func `A6, rule 1: an update in the change set does not bring a deleted book back`() async throws {
        let (cluster, anna, _) = try await Self.refused(
            "UPDATE book SET title = 'anna' WHERE id = 1", later: "DELETE FROM book WHERE id = 1")
        #expect(try await cluster.rows("SELECT count(*) FROM book WHERE title IN ('anna', 'old')") == ["0"])
        #expect(try await anna.engine.conflicts().count == 1)
    }

    @Test(arguments: ["UPDATE book SET title = 'ben' WHERE id = 2", "DELETE FROM book WHERE id = 1"])
    func `the change set is made again if others changed nothing that matters to it`(later: String) async throws {
        let edit = later.hasPrefix("DELETE") ? later : "UPDATE book SET title = 'anna' WHERE id = 1"
        let (cluster, anna, ben) = try await Self.refused(edit, later: later)
        try await cluster.converge(anna, ben)
        #expect(try await anna.engine.conflicts().isEmpty)
        #expect(try await cluster.rows(Self.new) == ["first", "of anna", "of the server"])
        #expect(try await cluster.rows(Self.old) == (edit == later ? [] : ["anna|top|0"]))
    }

    @Test func `under a policy, other columns and sums do not prevent the change set from being made again`()
        async throws
    {
        let (cluster, anna, ben) = try await Self.refused(
            "UPDATE book SET title = 'anna', copies = copies + 2 WHERE id = 1",
            later: "UPDATE book SET shelf = 'ben', copies = copies + 3 WHERE id = 1",
            policies: ["book": .columns, "book.copies": .add])
        try await cluster.converge(anna, ben)
        #expect(try await anna.engine.conflicts().isEmpty)
        #expect(try await cluster.rows(Self.old) == ["anna|ben|5"])
    }

    @Test(arguments: [ConflictPolicy.lastWriter, .latest])
    func `under a policy that lets one value prevail, no value is lost`(policy: ConflictPolicy) async throws {
        let (cluster, anna, ben) = try await Self.refused(
            "UPDATE book SET title = 'anna' WHERE id = 1", later: "UPDATE book SET title = 'ben' WHERE id = 1",
            policies: ["book.title": policy])
        #expect(try await cluster.rows(Self.old) == ["ben|top|0"])
        #expect(try await anna.engine.conflicts().contains { $0.records.contains { $0.mine == #"{"title":"anna"}"# } })
        #expect(try await ben.engine.conflicts().isEmpty)
    }

    @Test(arguments: [ConflictPolicy.lastWriter, .latest])
    func `A6, rule 1: under a policy, a new book with a drawn id gets another one and overrules no other book`(
        policy: ConflictPolicy
    ) async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed, policies: ["book": policy])
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.engine.sync()
        try await anna.write("INSERT INTO book (title) VALUES ('first')")
        try await anna.engine.sync()
        try cluster.writeOutside("INSERT INTO book (title, shelf) VALUES ('of the server', 'low')")
        try await anna.write(
            """
            INSERT INTO book (title) VALUES ('of anna');
            INSERT INTO page (book_id, text) SELECT max(id), 'of anna' FROM book
            """
        )
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows(Self.new) == ["first", "of anna", "of the server"])
        #expect(
            try await ben.rows("SELECT title FROM book JOIN page ON book.id = book_id WHERE text = 'of anna'") == [
                "of anna"
            ])
        #expect(try await ben.rows("SELECT shelf FROM book WHERE title = 'of the server'") == ["low"])
        for device in [anna, ben] { #expect(try await device.engine.conflicts().isEmpty) }
    }

    @Test(arguments: [ConflictPolicy.lastWriter, .latest])
    func `A6, rule 1: under a policy, a new book with a chosen id is a conflict and overrules no other book`(
        policy: ConflictPolicy
    ) async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed, policies: ["book": policy])
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.engine.sync()
        let id: Int64 = 1_795_440_614_030
        try cluster.writeOutside("INSERT INTO book (id, title) VALUES (\(id), 'of the server')")
        try await anna.write("INSERT INTO book (id, title) VALUES (\(id), 'of anna')")
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows(Self.new) == ["of the server"])
        let conflict = try #require(try await anna.engine.conflicts().first)
        #expect(conflict.reasons.map(\.rule) == ["exists"])
        #expect(conflict.records.contains { $0.mine?.contains("of anna") == true })
        // A person who has seen the other book may replace it, and says so.
        await #expect(throws: TidemarkError.self) { try await anna.engine.resolve(conflict, with: .retry) }
        try await anna.engine.resolve(conflict, with: .retry, takenIDs: .replace)
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows(Self.new) == ["of anna"])
    }

    @Test func `a sent edit of the new book, without a verdict yet, gets the new id along with the book`()
        async throws
    {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        try await anna.engine.sync()
        try await anna.write("INSERT INTO book (title) VALUES ('first')")
        try await anna.engine.sync()
        try await anna.write("INSERT INTO book (title) VALUES ('of anna')")
        try await anna.write("INSERT INTO page (book_id) SELECT max(id) FROM book")
        try await anna.write("UPDATE book SET shelf = 'anna' WHERE title = 'of anna'")
        anna.transport.faults.add(.requestLost)
        await anna.syncInVain()
        try cluster.writeOutside("INSERT INTO book (title) VALUES ('of the server')")
        var limits = Limits.standard
        limits.changeSetsPerRequestMax = 1
        let restarted = try await anna.reopened(limits: limits)
        try await restarted.engine.sync()
        try await cluster.converge(restarted)
        #expect(try await restarted.engine.conflicts().isEmpty)
        #expect(try await cluster.rows("SELECT title, shelf FROM book WHERE shelf = 'anna'") == ["of anna|anna"])
        #expect(
            try await cluster.rows("SELECT title FROM page JOIN book ON book.id = book_id ORDER BY page.id") == [
                "older", "of anna",
            ]
        )
    }

    @Test func `A6, rule 1: a copy of the file makes no change set again over an edit of the original`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        try await anna.engine.sync()
        let twin = try await anna.copy("twin")
        try await anna.write("INSERT INTO book (title) VALUES ('of anna'); UPDATE page SET text = 'anna' WHERE id = 1")
        try await twin.write(
            "INSERT INTO book (title) VALUES ('of the twin'); UPDATE page SET text = 'twin' WHERE id = 1")
        try await anna.engine.sync()
        try await twin.engine.sync()
        try await anna.engine.sync()
        #expect(try await anna.rows("SELECT text FROM page") == ["anna"])
        let conflict = try #require(try await twin.engine.conflicts().first)
        #expect(conflict.records.contains { $0.table == "page" && $0.mine == #"{"text":"twin"}"# })
        try await twin.engine.resolve(conflict.id, with: .retry)
        try await cluster.converge(anna, twin)
        #expect(try await anna.rows(Self.new) == ["of anna", "of the twin"])
    }

    @Test func `A6, rule 1: a copy of the file deletes no child that it has not seen`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        try await anna.engine.sync()
        let twin = try await anna.copy("twin")
        try await anna.write("INSERT INTO page (book_id, text) VALUES (2, 'of anna')")
        try await anna.engine.sync()
        try twin.writeOutside("PRAGMA foreign_keys = ON; DELETE FROM book WHERE id = 2")
        try await twin.engine.sync()
        try await twin.engine.sync()
        try await anna.engine.sync()
        #expect(try await anna.rows("SELECT text FROM page ORDER BY id") == ["a page", "of anna"])
        let conflict = try #require(try await twin.engine.conflicts().first)
        #expect(conflict.reasons.map(\.rule) == ["referenced"])
        // A person who sees the page may delete it with the book.
        #expect(conflict.takenAlong.map(\.table) == ["page"])
        try await twin.engine.resolve(conflict, with: .retry)
        try await cluster.converge(twin, anna)
        #expect(try await anna.rows("SELECT count(*) FROM book JOIN page") == ["0"])
    }

    @Test func `a later conflict about the record that has the id keeps its reference`() async throws {
        let (cluster, anna, ben) = try await Self.refused(
            "UPDATE book SET code = 'x' WHERE title = 'of anna'",
            later: "INSERT INTO book (title, code) VALUES ('of ben', 'x')")
        // The code is in use, so the change set waits among the conflicts.
        #expect(try await anna.engine.conflicts().count == 1)
        let theirs = "(SELECT id FROM book WHERE title = 'of the server')"
        try await anna.write("UPDATE page SET book_id = \(theirs) WHERE id = 1")
        try await ben.write("UPDATE page SET text = 'ben' WHERE id = 1; DELETE FROM book WHERE code = 'x'")
        try await ben.engine.sync()
        try await anna.engine.sync()
        try await anna.engine.sync()
        #expect(try await cluster.rows(Self.new) == ["first", "of anna", "of the server"])
        let conflict = try #require(try await anna.engine.conflicts().first)
        try await anna.engine.resolve(conflict.id, with: .retry)
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT title FROM page JOIN book ON book.id = book_id") == ["of the server"])
    }
}
