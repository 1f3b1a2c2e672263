import Foundation
import StoreTestSupport
import Testing
import TidemarkCore

/// Rules 1 and 27: a policy decides between versions of one record, and not between two new records that have one
/// number.
///
/// Two creations of a key that both authors chose are versions of one record, and the losing values are kept.
@Suite(.serialized) struct NewRecordPolicyTests {
    private static let schema = """
        CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT);
        CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT);
        CREATE TABLE seat (line INTEGER, number INTEGER, guest TEXT, PRIMARY KEY (line, number));
        CREATE TABLE account (note_id INTEGER PRIMARY KEY REFERENCES note, owner TEXT);
        INSERT INTO note VALUES (1, 'milk');
        """
    private static let deciding = [ConflictPolicy.lastWriter, .latest]

    private static func zone(_ store: Store, _ policy: ConflictPolicy) async throws -> Zone {
        try await Zone(
            store, schema, policies: ["note": policy, "setting": policy, "seat": policy, "account": policy],
            now: { 1_700_000_000_000 })
    }

    /// A change set that creates a note.
    private static func note(_ text: String) -> String {
        #"{"time":1700000000001000,"note":{"create":[7],"attributes":{"7":{"text":"\#(text)"}}}}"#
    }

    @Test(arguments: Store.all, deciding)
    func `a new note does not overrule the note that another program made under its id`(
        store: Store, policy: ConflictPolicy
    ) async throws {
        let zone = try await Self.zone(store, policy)
        try await zone.writeOutside("INSERT INTO note VALUES (7, 'of psql')")
        let set = try #require(try await zone.sync(at: 1, device: "d", Self.note("of d")).changeSets.last)
        #expect(set.isConflict == true)
        #expect(set.rules == ["exists"])
        #expect(set.attributes("note", "7")?["text"] as? String == "of psql")
        #expect(try await zone.column("SELECT text FROM note ORDER BY id") == ["milk", "of psql"])
    }

    @Test(arguments: Store.all, deciding)
    func `a new note does not overrule the note that another device made under its id`(
        store: Store, policy: ConflictPolicy
    ) async throws {
        let zone = try await Self.zone(store, policy)
        _ = try await zone.sync(at: 1, device: "e", Self.note("of e"))
        let set = try #require(try await zone.sync(at: 1, device: "d", Self.note("of d")).changeSets.last)
        #expect(set.rules == ["exists"])
        #expect(try await zone.column("SELECT text FROM note ORDER BY id") == ["milk", "of e"])
        #expect(try await zone.column("SELECT count(*) FROM tidemark_overruled") == ["0"])
    }

    @Test(arguments: Store.all, deciding)
    func `two new notes under one id in one group: one is accepted, the other one is a conflict`(
        store: Store, policy: ConflictPolicy
    ) async throws {
        let zone = try await Self.zone(store, policy)
        let answers = try await zone.together(
            ["d", "e"].map { #"{"maxRevision":1,"device":"\#($0)","changeSets":[\#(Self.note("of \($0)"))]}"# }
        ).map { try Answer($0.get()) }
        #expect(answers.map { $0.changeSets.last?.isConflict } == [false, true])
        #expect(try await zone.column("SELECT text FROM note ORDER BY id") == ["milk", "of d"])
    }

    @Test(arguments: Store.all, deciding)
    func `a later edit of the note under the id still follows the policy`(store: Store, policy: ConflictPolicy)
        async throws
    {
        let zone = try await Self.zone(store, policy)
        _ = try await zone.sync(at: 1, device: "e", Self.note("of e"))
        _ = try await zone.sync(at: 2, device: "e", Self.update(time: 1, "again of e"))
        let set = try #require(try await zone.sync(at: 2, device: "d", Self.update(time: 2, "of d")).changeSets.last)
        #expect(set.isConflict == false)
        #expect(try await zone.column("SELECT text FROM note WHERE id = 7") == ["of d"])
        #expect(try await zone.column("SELECT device FROM tidemark_overruled") == ["e"])
    }

    private static func update(time: Int, _ text: String) -> String {
        #"{"time":170000000000\#(time)000,"note":{"update":[7],"attributes":{"7":{"text":"\#(text)"}}}}"#
    }

    /// A key that authors choose, the row of another program, and a change set that creates the same key.
    private static let chosen: [(table: String, row: String, set: String)] = [
        ("setting", "('colour', 'red')", #""create":["colour"],"attributes":{"colour":{"value":"blue"}}"#),
        ("seat", "(3, 4, 'red')", #""create":[[3,4]],"attributes":{"[3,4]":{"guest":"blue"}}"#),
        ("account", "(1, 'red')", #""create":[1],"attributes":{"1":{"owner":"blue"}}"#),
    ]

    @Test(arguments: Store.all, chosen.indices)
    func `B11: a chosen key follows the policy, and the device keeps the other program's value`(
        store: Store, index: Int
    ) async throws {
        let chosen = Self.chosen[index]
        let zone = try await Self.zone(store, .lastWriter)
        try await zone.writeOutside("INSERT INTO \(chosen.table) VALUES \(chosen.row)")
        let sent = #"{"\#(chosen.table)":{\#(chosen.set)}}"#
        let set = try #require(try await zone.sync(at: 1, device: "d", sent).changeSets.last)
        #expect(set.isConflict == false)
        let overruled = set.object["overruled"] as? [[String: Any]]
        let lost = try #require(overruled?.first?["lost"] as? [String: String])
        #expect(Array(lost.values) == ["red"])
    }
}
