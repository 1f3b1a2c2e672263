import Foundation
import StoreTestSupport
import Testing
import TidemarkCore

/// Rule 1: a key that is spelled otherwise than its row is stored names that row all the same, with
/// all that others did to it.
@Suite struct KeySpellingTests {
    private static let schema = """
        CREATE TABLE size (size REAL PRIMARY KEY NOT NULL, note TEXT);
        CREATE TABLE seat (row TEXT NOT NULL, number INTEGER NOT NULL, note TEXT, PRIMARY KEY (row, number));
        INSERT INTO size VALUES (9.0, 'old');
        INSERT INTO seat VALUES ('A', 3, 'old');
        """

    /// The record as it is stored, and in other words: table, then key.
    private static let spellings = [
        ("size", "9.0", "9"), ("size", "9.0", #""9""#), ("size", "9.0", "900e-2"), ("seat", #"["A",3]"#, #"["A","3"]"#),
        ("seat", #"["A",3]"#, #"["A",3.0]"#),
    ]

    private static func set(_ operation: String, _ table: String, _ key: String) -> String {
        let member = key.replacing("\"", with: "\\\"")
        let attributes = operation == "delete" ? "" : #","attributes":{"\#(member)":{"note":"\#(operation)d"}}"#
        return #"{"\#(table)":{"\#(operation)":[\#(key)]\#(attributes)}}"#
    }

    @Test(arguments: Store.all, spellings)
    func `A6: who spells a key in another way overwrites nothing that they have not seen`(
        store: Store,
        record: (table: String, key: String, other: String)
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        let (table, key, other) = record
        _ = try await zone.sync(at: 1, device: "a", Self.set("update", table, key))
        for operation in ["update", "delete"] {
            let answer = try await zone.sync(at: 1, device: "b", Self.set(operation, table, other))
            let refused = try #require(answer.changeSets.last)
            #expect(refused.isConflict == true, "\(operation) \(other)")
            // The truth names the record as it is stored, and as it is.
            let truth = refused.attributes(table, key)
            #expect(truth?["note"] as? String == "updated")
        }
        #expect(try await zone.column("SELECT max(note) FROM \(table)") == ["updated"])
    }

    @Test(arguments: Store.all, spellings) func `A6: who has seen the record may spell its key as they like`(
        store: Store,
        record: (table: String, key: String, other: String)
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        let (table, _, other) = record
        let answer = try await zone.sync(at: 1, device: "a", Self.set("update", table, other))
        #expect(answer.changeSets.last?.isConflict == false)
        #expect(try await zone.column("SELECT note FROM \(table)") == ["updated"])
        _ = try await zone.sync(at: 2, device: "a", Self.set("delete", table, other))
        #expect(try await zone.column("SELECT count(*) FROM \(table)") == ["0"])
    }

    @Test(arguments: Store.all) func `rule 9: a record that is named twice, in two spellings, is refused`(store: Store)
        async throws
    {
        let zone = try await Zone(store, Self.schema)
        let twice = #"{"size":{"update":[9],"delete":[9.0],"attributes":{"9":{"note":"x"}}}}"#
        let error = await #expect(throws: TidemarkError.self) { try await zone.sync(at: 1, device: "a", twice) }
        #expect(error?.code == .malformedRequest)
        #expect(error?.place.table == "size")
        #expect(try await zone.column("SELECT note FROM size") == ["old"])
    }

    @Test func `A6: numbers without a type, and letters of any case, are found as SQLite does`() async throws {
        let zone = try await Zone(
            .embedded,
            """
            CREATE TABLE bare (k PRIMARY KEY NOT NULL, note TEXT);
            CREATE TABLE word (k TEXT PRIMARY KEY COLLATE NOCASE NOT NULL, note TEXT);
            INSERT INTO bare VALUES (6, 'old');
            INSERT INTO word VALUES ('abc', 'old');
            """
        )
        for (table, key, other) in [("bare", "6", "6.0"), ("word", #""abc""#, #""ABC""#)] {
            let member = { (key: String) in key.replacing("\"", with: "") }
            let update = { (key: String, note: String) in
                #"{"\#(table)":{"update":[\#(key)],"attributes":{"\#(member(key))":{"note":"\#(note)"}}}}"#
            }
            _ = try await zone.sync(at: 1, device: "a", update(key, "seen"))
            let answer = try await zone.sync(at: 1, device: "b", update(other, "unseen"))
            #expect(answer.changeSets.last?.isConflict == true, "\(table)")
            #expect(try await zone.column("SELECT note FROM \(table)") == ["seen"])
        }
    }
}
