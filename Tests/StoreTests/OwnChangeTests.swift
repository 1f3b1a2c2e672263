import StoreTestSupport
import Testing
import TidemarkCore

/// Overruled values and conflicts of an author with several changes of a record since the base:
/// values that the author has replaced itself no longer count.
@Suite(.serialized) struct OwnChangeTests {
    private static let schema = """
        CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT, done INTEGER DEFAULT 0);
        CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT, size INTEGER);
        INSERT INTO note VALUES (1, 'milk', 1), (2, 'bread', 0);
        """

    private static func zone(_ store: Store) async throws -> Zone {
        try await Zone(store, schema, policies: ["note": .lastWriter, "setting": .lastWriter])
    }

    /// A change set that edits the first note.
    private static func edit(_ attributes: String) -> String {
        #"{"note":{"update":[1],"attributes":{"1":{\#(attributes)}}}}"#
    }

    /// A change set that creates or edits the setting `colour`.
    private static func colour(_ operation: String, _ attributes: String) -> String {
        #"{"setting":{"\#(operation)":["colour"],"attributes":{"colour":{\#(attributes)}}}}"#
    }

    /// The author's last edit of the note, or of the setting.
    private static let lastEdits = [edit(#""text":"of d, again""#), #"{"note":{"delete":[1]}}"#]
    private static let lastColours = [colour("update", #""value":"green""#), #"{"setting":{"delete":["colour"]}}"#]

    /// The devices with an overruled value, and the values.
    private static func lost(_ zone: Zone) async throws -> [String] {
        let notes = try await zone.column("SELECT device || records FROM tidemark_overruled")
        return notes.map { note in
            let lost = note.firstMatch(of: /"lost":(\{.*?\})/).map { String($0.1) } ?? note
            return "\(note.prefix(1)) \(lost)"
        }.sorted()
    }

    @Test(arguments: Store.all, lastEdits)
    func `B8: a device is not told of a loss that its own later edit caused`(store: Store, last: String)
        async throws
    {
        let zone = try await Self.zone(store)
        _ = try await zone.sync(at: 1, device: "e", Self.edit(#""text":"of e""#))
        let answer = try await zone.sync(at: 1, device: "d", Self.edit(#""text":"of d""#), last)
        #expect(!answer.changeSets.map(\.isConflict).contains(true))
        #expect(try await zone.revision() == 4)
        #expect(try await Self.lost(zone) == [#"e {"text":"of e"}"#])
    }

    @Test(arguments: Store.all, lastColours)
    func `B11: the author of an existing setting can change it again without a conflict`(store: Store, last: String)
        async throws
    {
        let zone = try await Self.zone(store)
        let red = #""value":"red","size":1"#
        let blue = #""value":"blue","size":2"#
        _ = try await zone.sync(at: 1, device: "e", Self.colour("create", red))
        let answer = try await zone.sync(at: 1, device: "d", Self.colour("create", blue), last)
        #expect(!answer.changeSets.map(\.isConflict).contains(true))
        let remaining = last.contains("green") ? ["green"] : []
        #expect(try await zone.column("SELECT value FROM setting") == remaining)
        #expect(try await Self.lost(zone) == [#"e {"size":1,"value":"red"}"#])
    }

    @Test(arguments: Store.all)
    func `B11: of a setting set twice, a value is kept that only the later edit replaces`(store: Store)
        async throws
    {
        let zone = try await Self.zone(store)
        let red = #""value":"red","size":1"#
        let blue = #""value":"blue","size":1"#
        _ = try await zone.sync(at: 1, device: "e", Self.colour("create", red))
        let answer = try await zone.sync(
            at: 1, device: "d", Self.colour("create", blue), Self.colour("update", #""size":9"#))
        #expect(!answer.changeSets.map(\.isConflict).contains(true))
        #expect(try await zone.column("SELECT value || size FROM setting") == ["blue9"])
        #expect(try await Self.lost(zone) == [#"e {"size":1}"#, #"e {"value":"red"}"#])
    }

    @Test(arguments: Store.all) func `a deletion after unseen edits succeeds if the edited column was dropped`(
        store: Store
    ) async throws {
        let zone = try await Self.zone(store)
        _ = try await zone.sync(at: 1, device: "e", Self.edit(#""done":0"#))
        // The rename is not declared, so for the embedded store the column is dropped.
        try await zone.writeOutside(
            store == .postgres ? "ALTER TABLE note DROP COLUMN done" : "ALTER TABLE note RENAME COLUMN done TO flag")
        let answer = try await zone.sync(at: 1, device: "d", #"{"note":{"delete":[1]}}"#)
        #expect(!answer.changeSets.map(\.isConflict).contains(true))
        #expect(try await zone.column("SELECT id FROM note") == ["2"])
        #expect(try await Self.lost(zone) == [])
    }
}
