import Foundation
import StoreTestSupport
import Testing
import TidemarkCore

/// Rule 35: requests without change sets are answered from memory, with equal answers.
@Suite struct PullTests {
    private static let schema = """
        CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT);
        INSERT INTO notes VALUES (1, 'first');
        """

    private static func id(_ number: Int) -> String { "6f6d3a4e-0000-4000-8000-\(String(format: "%012d", number))" }

    private static func edit(_ text: String, _ number: Int) -> String {
        #"{"id":"\#(id(number))","notes":{"update":[1],"attributes":{"1":{"text":"\#(text)"}}}}"#
    }

    private static func pull(_ revision: Int64, device: String = "b", _ members: String = "") -> String {
        #"{"maxRevision":\#(revision),"device":"\#(device)","settled":true\#(members)}"#
    }

    /// Sends typed requests, and then asks from the resulting revision.
    private static func zone(_ store: Store, edits: Int, policies: [String: ConflictPolicy] = [:]) async throws -> Zone
    {
        let zone = try await Zone(store, schema, policies: policies)
        for number in 1...edits { _ = try await zone.sync(at: Int64(number), device: "a", edit("\(number)", number)) }
        return zone
    }

    @Test(arguments: Store.all) func `a device behind by any number of revisions gets exactly these`(store: Store)
        async throws
    {
        let zone = try await Self.zone(store, edits: 20)
        for behind: Int64 in [0, 1, 5, 20, 3] {
            let answer = try await zone.sync(Self.pull(21 - behind))
            #expect(answer.maxRevision == 21)
            #expect(answer.changeSets.count == Int(behind))
        }
    }

    @Test(arguments: Store.all) func `D2: a commit made a moment ago is in the next answer, whichever device wrote it`(
        store: Store
    ) async throws {
        let zone = try await Self.zone(store, edits: 1)
        #expect(try await zone.sync(Self.pull(2)).maxRevision == 2)
        for number in 2...10 {
            _ = try await zone.sync(at: Int64(2 * number - 2), Self.edit("\(number)", number))
            #expect(try await zone.sync(Self.pull(2)).maxRevision == 2 * number - 1)
            try await zone.writeOutside("UPDATE notes SET text = 'psql \(number)'")
            #expect(try await zone.sync(Self.pull(2)).maxRevision == 2 * number)
        }
    }

    @Test(arguments: Store.all) func `C3: an ALTER TABLE made meanwhile is in the next answer`(store: Store)
        async throws
    {
        let zone = try await Self.zone(store, edits: 2)
        let before = try await zone.sync(Self.pull(1))
        try await zone.writeOutside("ALTER TABLE notes ADD COLUMN colour TEXT")
        let after = try await zone.sync(Self.pull(1))
        #expect(before.object["schema"] as? String != after.object["schema"] as? String)
        #expect(after.maxRevision == before.maxRevision)
    }

    @Test(arguments: Store.all) func `case 33: a device without edits that lacks its own revision is a copy`(
        store: Store
    ) async throws {
        let zone = try await Self.zone(store, edits: 5)
        for revision: Int64 in [1, 5] {
            let refusal = try await zone.refusal(of: Self.pull(revision, device: "a"))
            #expect(refusal?.code == .identityInUse)
        }
        #expect(try await zone.refusal(of: Self.pull(6, device: "a")) == nil)
        #expect(try await zone.refusal(of: Self.pull(1, device: "A")) == nil)
    }

    @Test(arguments: Store.all) func `B8: an overruled value is reported to its device, and deleted after delivery`(
        store: Store
    ) async throws {
        let zone = try await Self.zone(store, edits: 1, policies: ["notes": .lastWriter])
        _ = try await zone.sync(at: 1, device: "b", Self.edit("mine", 90))
        let note = #""overruled":[{"number":1,"#
        for _ in 1...2 {
            let answer = try await zone.bytes(Self.pull(3, device: "a"))
            #expect(String(decoding: answer, as: UTF8.self).contains(note))
        }
        let answer = try await zone.bytes(Self.pull(3, device: "a", #","overruled":1"#))
        #expect(!String(decoding: answer, as: UTF8.self).contains("overruled"))
        #expect(try await zone.column("SELECT count(*) FROM tidemark_overruled") == ["0"])
    }

    @Test(arguments: Store.all) func `rule 17: a device with a wrong fingerprint is told so at every revision`(
        store: Store
    )
        async throws
    {
        let zone = try await Self.zone(store, edits: 5)
        // From here on every revision has a fingerprint.
        let print = try #require(try await zone.sync(Self.pull(6)).object["fingerprint"] as? String)
        _ = try await zone.sync(at: 6, device: "a", Self.edit("x", 20))
        let right = Self.pull(6, device: "b", #","fingerprint":"\#(print)""#)
        let wrong = Self.pull(6, device: "b", #","fingerprint":"\#(String(print.reversed()))""#)
        #expect(try await zone.sync(right).changeSets.count == 1)
        #expect(try await zone.refusal(of: wrong)?.code == .fingerprintMismatch)
    }

    @Test(
        arguments: Store.all,
        [
            #","changeSets":[{"notes":{"delete":[1]}}]"#,
            #","lap":{"last":null,"open":[],"next":"6f6d3a4e-0000-4000-8000-000000000001"}"#, #","recall":[]"#,
            #","settled":true"#,
        ]
    ) func `rule 9: a conditional GET with change sets is refused`(store: Store, members: String) async throws {
        let zone = try await Self.zone(store, edits: 1)
        let before = try await zone.content()
        let refusal = try await zone.refusal(of: Self.pull(2, device: "b", members))
        #expect([.malformedRequest, .duplicateName].contains(refusal?.code))
        #expect(try await zone.content() == before)
    }
}
