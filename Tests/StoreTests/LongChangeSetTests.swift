import Foundation
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkSQL

/// Rule 12: a change set stored in overflow chunks is one text again for every reader.
@Suite(.serialized) struct LongChangeSetTests {
    private static let tables = """
        CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT);
        CREATE TABLE tags (name TEXT PRIMARY KEY, colour TEXT);
        INSERT INTO notes VALUES (1, 'first');
        """
    /// In a zone with an app trigger, each change set is written by itself, in chunks; otherwise
    /// only those of several megabytes are.
    private static func schema(_ store: Store) -> String {
        let trigger = "CREATE TRIGGER own AFTER INSERT ON notes BEGIN SELECT 1; END;"
        return store == .embedded ? tables + trigger : tables
    }
    private static let pieces = "SELECT count(*) > 3 FROM tidemark_revision_rest"
    private static let id = "6f6d3a4e-0000-4000-8000-000000000001"
    private static let count = 1_500

    /// Records of both tables, one of them longer than a chunk, with characters of several bytes.
    private static var changeSet: String {
        let numbers = 1...count
        let long = String(repeating: "ünï ☃ ", count: ChangeSetText.pieceBytes / 6)
        let notes = numbers.map { #""-\#($0)":{"text":"\#($0 == 7 ? long : "größer ☃ \($0)")"}"# }
        let tags = numbers.map { #""☃ \#($0)":{"colour":"'\#($0)'"}"# }
        return #"{"id":"\#(id)","notes":{"create":[\#(numbers.map { "-\($0)" }.joined(separator: ","))],"#
            + #""attributes":{\#(notes.joined(separator: ","))}},"#
            + #""tags":{"create":[\#(numbers.map { #""☃ \#($0)""# }.joined(separator: ","))],"#
            + #""attributes":{\#(tags.joined(separator: ","))}}}"#
    }

    private static let request = #"{"maxRevision":1,"device":"a","changeSets":[\#(changeSet)]}"#

    /// The attributes of all records in an answer, in the form of the tables.
    private static func rows(_ answer: [UInt8]) throws -> [String] {
        let set = try #require(try Answer(answer).changeSets.first)
        let notes = set.ids("create", "notes") ?? []
        return try notes.map { id in
            let text = try #require(set.attributes("notes", "\(id)")?["text"] as? String)
            return "\(id) \(text)"
        }
    }

    @Test(arguments: Store.all) func `F4, rule 3: author and other devices get all records of it, at each request`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema(store))
        let first = try await zone.bytes(Self.request)
        let storedRows = try await zone.column("SELECT id || ' ' || text FROM notes WHERE id > 1 ORDER BY id")
        #expect(storedRows.count == Self.count)
        if store == .embedded { #expect(try await zone.column(Self.pieces) == ["1"]) }
        #expect(try Self.rows(first) == storedRows)
        // One device that only asks, and one that sends an edit.
        let pulled = try await zone.bytes(#"{"maxRevision":1,"device":"b"}"#)
        #expect(try Self.rows(pulled) == storedRows)
        let tags = try #require(try Answer(pulled).changeSets.first)
        #expect(tags.attributes("tags", "☃ \(Self.count)")?["colour"] as? String == "'\(Self.count)'")
        let pushed = try await zone.bytes(#"{"maxRevision":1,"device":"c","changeSets":[{"notes":{"delete":[1]}}]}"#)
        #expect(try Self.rows(pushed) == storedRows)
        // The author, with a lost answer: it retries, and it asks.
        #expect(try await zone.bytes(Self.request).count >= first.count)
        let again = try await zone.bytes(Self.request)
        #expect(try Self.rows(again) == storedRows)
        #expect(try Answer(again).changeSets.first?.attributes("notes", "2")?["__oldId__"] != nil)
    }

    @Test(arguments: Store.all)
    func `F4: devices that accept deltas, its author included, are sent to a delta`(store: Store)
        async throws
    {
        var limits = Limits.standard
        limits.deltaBytesMin = ChangeSetText.pieceBytes
        let zone = try await Zone(store, Self.schema(store), limits: limits)
        let first = try await zone.bytes(Self.request)
        let schema = try #require(try Answer(first).schema)
        if store == .embedded {
            // A reader that makes a copy of it finds invalid JSON.
            try await zone.writeOutside("UPDATE tidemark_revision_rest SET text = printf('%.*c', length(text), 'x')")
        }
        for changeSets in ["", #"{"notes":{"delete":[1]}}"#] {
            for device in ["a", "b"] {
                let refusal = try await zone.refusal(
                    of: #"{"maxRevision":1,"device":"\#(device)","schema":"\#(schema)","delta":true,"#
                        + #""changeSets":[\#(changeSets)]}"#)
                #expect(refusal?.code == .snapshotRequired)
            }
        }
        #expect(try await zone.column("SELECT id FROM notes WHERE id = 1") == ["1"])
    }

    @Test func `case 60: compaction deletes the overflow chunks with the revision`() async throws {
        var limits = Limits.standard
        limits.revisionsKept = 1
        limits.compactionStepMin = 1
        let zone = try await Zone(.embedded, Self.schema(.embedded), limits: limits)
        _ = try await zone.bytes(Self.request)
        #expect(try await zone.column(Self.pieces) == ["1"])
        for number in 2...5 { _ = try await zone.sync(at: Int64(number), #"{"notes":{"create":[-\#(number)]}}"#) }
        #expect(try await zone.column("SELECT count(*) FROM tidemark_revision_rest") == ["0"])
    }
}
