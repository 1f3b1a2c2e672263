import Foundation
import StoreTestSupport
import Testing
import TidemarkCore

/// Rule 1: a key spelled differently from the stored one names the same row, with all changes of
/// others.
@Suite struct KeySpellingTests {
    private static let schema = """
        CREATE TABLE size (size REAL PRIMARY KEY NOT NULL, note TEXT);
        CREATE TABLE seat (row TEXT NOT NULL, number INTEGER NOT NULL, note TEXT, PRIMARY KEY (row, number));
        INSERT INTO size VALUES (9.0, 'old');
        INSERT INTO seat VALUES ('A', 3, 'old');
        """

    /// The record's table and key as stored, and in other spellings.
    private static let spellings = [
        ("size", "9.0", "9"), ("size", "9.0", #""9""#), ("size", "9.0", "900e-2"), ("seat", #"["A",3]"#, #"["A","3"]"#),
        ("seat", #"["A",3]"#, #"["A",3.0]"#),
    ]

    @Test(arguments: Store.all)
    func `a deletion is of its own change set, although the one before creates a key that looks the same`(store: Store)
        async throws
    {
        let one = "\u{e9}"
        let other = "e\u{301}"
        let zone = try await Zone(
            store,
            "CREATE TABLE tag (name TEXT PRIMARY KEY NOT NULL, note TEXT); INSERT INTO tag VALUES ('\(other)', 'old');")
        let sets =
            #"{"tag":{"create":["\#(one)"],"attributes":{"\#(one)":{"note":"new"}}}},{"tag":{"delete":["\#(other)"]}}"#
        _ = try await zone.sync(#"{"maxRevision":1,"changeSets":[\#(sets)]}"#)
        let log = "SELECT revision || ' ' || operation FROM tidemark_log WHERE revision > 1 ORDER BY revision"
        #expect(try await zone.column(log) == ["2 create", "3 delete"])
    }

    private static func set(_ operation: String, _ table: String, _ key: String) -> String {
        let member = key.replacing("\"", with: "\\\"")
        let attributes = operation == "delete" ? "" : #","attributes":{"\#(member)":{"note":"\#(operation)d"}}"#
        return #"{"\#(table)":{"\#(operation)":[\#(key)]\#(attributes)}}"#
    }

    @Test(arguments: Store.all, spellings)
    func `A6: another spelling of a key does not allow overwriting unseen changes`(
        store: Store, record: (table: String, key: String, other: String)
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        let (table, key, other) = record
        _ = try await zone.sync(at: 1, device: "a", Self.set("update", table, key))
        for operation in ["update", "delete"] {
            let answer = try await zone.sync(at: 1, device: "b", Self.set(operation, table, other))
            let verdict = try #require(answer.changeSets.last)
            #expect(verdict.isConflict == true, "\(operation) \(other)")
            // The conflict has the stored key and the current row.
            let truth = verdict.attributes(table, key)
            #expect(truth?["note"] as? String == "updated")
        }
        #expect(try await zone.column("SELECT max(note) FROM \(table)") == ["updated"])
    }

    @Test(arguments: Store.all, spellings) func `A6: after seeing the record, a device may spell its key in any way`(
        store: Store, record: (table: String, key: String, other: String)
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        let (table, _, other) = record
        let answer = try await zone.sync(at: 1, device: "a", Self.set("update", table, other))
        #expect(answer.changeSets.last?.isConflict == false)
        #expect(try await zone.column("SELECT note FROM \(table)") == ["updated"])
        _ = try await zone.sync(at: 2, device: "a", Self.set("delete", table, other))
        #expect(try await zone.column("SELECT count(*) FROM \(table)") == ["0"])
    }

    @Test(arguments: Store.all) func `rule 9: a record named twice in two spellings is refused`(store: Store)
        async throws
    {
        let zone = try await Zone(store, Self.schema)
        let twice = #"{"size":{"update":[9],"delete":[9.0],"attributes":{"9":{"note":"x"}}}}"#
        let error = await #expect(throws: TidemarkError.self) { try await zone.sync(at: 1, device: "a", twice) }
        #expect(error?.code == .malformedRequest)
        #expect(error?.place.table == "size")
        #expect(try await zone.column("SELECT note FROM size") == ["old"])
    }

    @Test func `A6: untyped numbers and text of any case match keys as in SQLite`() async throws {
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
