import Foundation
import StoreTestSupport
import Testing
import TidemarkCore

/// Rules 3, 5 and 13: a retry has no effect however late, the device's order holds, and an id has
/// one content.
@Suite(.serialized) struct RetryTests {
    private static let schema = """
        CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT);
        INSERT INTO notes VALUES (1, 'first');
        """

    private static func id(_ number: Int) -> String { "6f6d3a4e-0000-4000-8000-\(String(format: "%012d", number))" }

    private static func create(_ number: Int, text: String = "new", after: Int? = nil) -> String {
        let after = after.map { #""after":"\#(id($0))","# } ?? ""
        return #"{"id":"\#(id(number))",\#(after)"notes":{"create":[-\#(number)],"#
            + #""attributes":{"-\#(number)":{"text":"\#(text)"}}}}"#
    }

    /// The change set with an id, as the bytes of an answer have it.
    private static func slice(_ number: Int, of answer: [UInt8]) throws -> String {
        let text = String(decoding: answer, as: UTF8.self)
        let start = try #require(text.range(of: #"{"id":"\#(id(number))""#)).lowerBound
        var depth = 0
        let end = text[start...].firstIndex { character in
            if character == "{" { depth += 1 }
            if character == "}" { depth -= 1 }
            return depth == 0
        }
        return String(text[start...(try #require(end))])
    }

    @Test(arguments: Store.all) func `Rule 3: a retried change set gets the same bytes, however late`(store: Store)
        async throws
    {
        let zone = try await Zone(store, Self.schema)
        let request = #"{"maxRevision":1,"device":"a","changeSets":[\#(Self.create(1))]}"#
        let first = try Self.slice(1, of: try await zone.bytes(request))
        #expect(first.contains(#""__oldId__":-1"#))
        // The record is edited, deleted, and others are created: the verdict stays.
        for (number, sql) in [
            "UPDATE notes SET text = 'other' WHERE id = 2", "DELETE FROM notes WHERE id = 2",
            "INSERT INTO notes VALUES (9, 'nine')",
        ].enumerated() {
            try await zone.writeOutside(sql)
            _ = try await zone.sync(at: Int64(number) + 2)
        }
        let before = try await zone.content()
        #expect(try Self.slice(1, of: try await zone.bytes(request)) == first)
        #expect(try await zone.content() == before)
        // By now the device is far ahead: the verdict still comes, though it is not behind.
        let late = #"{"maxRevision":5,"device":"a","changeSets":[\#(Self.create(1))]}"#
        let answer = try await zone.bytes(late)
        #expect(try Self.slice(1, of: answer) == first)
        #expect(try Answer(answer).changeSets.count == 1)
        #expect(try Answer(answer).maxRevision == 5)
    }

    @Test(arguments: Store.all) func `Rule 3: catch-up with one's own change set has the bytes of the first answer`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        let request = #"{"maxRevision":1,"device":"a","changeSets":[\#(Self.create(1))]}"#
        let first = try Self.slice(1, of: try await zone.bytes(request))
        // The answer was lost; the device asks without change sets, as after `more`.
        let catchUp = try await zone.bytes(#"{"maxRevision":1,"device":"a"}"#)
        #expect(try Self.slice(1, of: catchUp) == first)
        // A retried change set is in the answer once.
        let again = try await zone.bytes(request)
        #expect(try Self.slice(1, of: again) == first)
        #expect(try Answer(again).revisions == [2])
        // Other devices get it without the temporary id.
        let other = try await zone.bytes(#"{"maxRevision":1,"device":"b"}"#)
        let others = try Self.slice(1, of: other)
        #expect(!others.contains("__oldId__"))
    }

    @Test(arguments: Store.all)
    func `Rule 3: a retried conflict gets the same bytes, although the rows have changed since`(store: Store)
        async throws
    {
        let zone = try await Zone(store, Self.schema)
        try await zone.writeOutside("UPDATE notes SET text = 'theirs'")
        let request =
            #"{"maxRevision":1,"device":"a","changeSets":[{"id":"\#(Self.id(1))","#
            + #""notes":{"update":[1],"attributes":{"1":{"text":"mine","revision":1}}}}]}"#
        let first = try Self.slice(1, of: try await zone.bytes(request))
        #expect(first.contains(#""conflict":true"#))
        try await zone.writeOutside("UPDATE notes SET text = 'theirs again'")
        #expect(try Self.slice(1, of: try await zone.bytes(request)) == first)
        #expect(try await zone.column("SELECT text FROM notes") == ["theirs again"])
    }

    @Test(arguments: Store.all) func `Rule 13: an id with other content is refused, from any device`(store: Store)
        async throws
    {
        let zone = try await Zone(store, Self.schema)
        _ = try await zone.sync(at: 1, device: "a", Self.create(1))
        let before = try await zone.content()
        let upper = Self.create(1, text: "other").replacingOccurrences(of: Self.id(1), with: Self.id(1).uppercased())
        for (device, set) in [
            ("a", Self.create(1, text: "other")), ("a", upper), ("b", upper), ("a", #"{"id":"\#(Self.id(1))"}"#),
        ] {
            let refusal = try await zone.refusal(of: #"{"maxRevision":2,"device":"\#(device)","changeSets":[\#(set)]}"#)
            #expect(refusal?.code == .changeSetIdReused, "\(device) \(set)")
            #expect(refusal?.place.id == Self.id(1))
            #expect(refusal?.recovery == .permanent)
        }
        #expect(try await zone.content() == before)
    }

    @Test(arguments: Store.all) func `Rule 3: forty concurrent copies of one request make one revision`(store: Store)
        async throws
    {
        let zone = try await Zone(store, Self.schema)
        let request = #"{"maxRevision":1,"device":"a","changeSets":[\#(Self.create(1)),\#(Self.create(2))]}"#
        let answers = try await withThrowingTaskGroup(of: [UInt8].self) { group in
            for _ in 0..<40 { group.addTask { try await zone.bytes(request) } }
            return try await group.reduce(into: Set<[UInt8]>()) { $0.insert($1) }
        }
        #expect(answers.count == 1)
        #expect(try await zone.column("SELECT count(*) FROM notes") == ["3"])
        #expect(try await zone.revision() == 3)
    }

    @Test(arguments: Store.all) func `C4 Rule 5: a change set whose predecessor never arrived is refused and names it`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        let before = try await zone.content()
        let refusal = try await zone.refusal(
            of: #"{"maxRevision":1,"changeSets":[\#(Self.create(2)),\#(Self.create(3, after: 1))]}"#)
        #expect(refusal?.code == .predecessorMissing)
        #expect(refusal?.message.contains(Self.id(1)) == true)
        #expect(refusal?.place.changeSet == 1)
        #expect(refusal?.recovery == .retry)
        #expect(try await zone.content() == before)
        // After its predecessor it is accepted.
        let answer = try await zone.sync(at: 1, Self.create(1), Self.create(3, after: 1))
        #expect(answer.revisions == [2, 3])
    }

    @Test(arguments: Store.all) func `Rule 5 11: dependents of a refused change set are conflicts, the rest commits`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        try await zone.writeOutside("UPDATE notes SET text = 'theirs'")
        _ = try await zone.sync(at: 1)
        let stale =
            #"{"id":"\#(Self.id(1))","notes":{"update":[1],"# + #""attributes":{"1":{"text":"mine","revision":1}}}}"#
        let answer = try await zone.sync(
            at: 2, device: "a", stale, Self.create(2, after: 1), Self.create(3), Self.create(4, after: 2))
        #expect(answer.changeSets.map(\.isConflict) == [true, true, false, true])
        #expect(answer.changeSets[1].rules == ["predecessor"])
        #expect(answer.changeSets[3].rules == ["predecessor"])
        #expect(answer.maxRevision == 3)
        let later = try await zone.sync(at: 3, device: "a", Self.create(5, after: 4))
        #expect(later.changeSets.first?.rules == ["predecessor"])
        #expect(try await zone.column("SELECT count(*) FROM notes") == ["2"])
    }

    @Test(arguments: Store.all) func `A6 Rule 5: a device edits its own record again without waiting for the answer`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        let edit = { (number: Int, text: String, after: String) in
            #"{"id":"\#(Self.id(number))",\#(after)"notes":{"update":[1],"#
                + #""attributes":{"1":{"text":"\#(text)","revision":1}}}}"#
        }
        // Both have base 1; the second names the first as predecessor, so the first counts as seen.
        _ = try await zone.sync(at: 1, device: "a", edit(1, "one", ""))
        let second = edit(2, "two", #""after":["\#(Self.id(1))"],"#)
        let answer = try await zone.sync(at: 1, device: "a", second)
        #expect(answer.changeSets.map(\.isConflict) == [false, false])
        // For a third device with the same base, they are unseen.
        let third = try await zone.sync(at: 1, device: "b", edit(3, "three", ""))
        #expect(third.changeSets.last?.isConflict == true)
        #expect(try await zone.column("SELECT text FROM notes") == ["two"])
    }
}
