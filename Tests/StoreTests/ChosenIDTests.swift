import Foundation
import StoreTestSupport
import Testing
import TidemarkCore

/// Ids that a program chooses for new records, as flash cards (milliseconds), issue trackers (a counter of
/// their own) and fixtures do.
@Suite(.serialized) struct ChosenIDTests {
    private static let schema = """
        CREATE TABLE deck (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE card (id INTEGER PRIMARY KEY, deck_id INTEGER REFERENCES deck, front TEXT);
        INSERT INTO deck VALUES (7, 'Danish');
        """
    private static let made: Int64 = 1_795_440_614_030

    private static func card(_ id: Int64, deck: Int64 = 7, _ front: String) -> String {
        #"{"card":{"create":[\#(id)],"attributes":{"\#(id)":{"deck_id":\#(deck),"front":"\#(front)"}}}}"#
    }

    @Test(arguments: Store.all) func `a card numbered by milliseconds keeps its id, and no answer renames it`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        let answer = try await zone.sync(at: 1, device: "d", Self.card(Self.made, "hund"))
        let set = try #require(answer.changeSets.last)
        #expect(set.ids("create", "card") == [Int(Self.made)])
        #expect(set.attributes("card", "\(Self.made)")?["__oldId__"] == nil)
        #expect(try await zone.column("SELECT id FROM card") == ["\(Self.made)"])
        #expect(try await zone.column("SELECT count(*) FROM tidemark_idmap") == ["0"])
    }

    @Test(arguments: Store.all) func `rule 1: two devices that choose one id are a conflict that shows the record`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        _ = try await zone.sync(at: 1, device: "d", Self.card(Self.made, "hund"))
        let set = try #require(try await zone.sync(at: 1, device: "e", Self.card(Self.made, "kat")).changeSets.last)
        #expect(set.isConflict == true)
        #expect(set.rules == ["exists"])
        #expect(set.attributes("card", "\(Self.made)")?["front"] as? String == "hund")
        #expect(try await zone.column("SELECT front FROM card") == ["hund"])
    }

    @Test(arguments: Store.all) func `two requests of one group choose one id: one is accepted, one refused`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        let answers = try await zone.together(
            ["hund", "kat"].map { #"{"maxRevision":1,"changeSets":[\#(Self.card(Self.made, $0))]}"# }
        ).map { try Answer($0.get()) }
        #expect(answers.map { $0.changeSets.last?.isConflict } == [false, true])
        #expect(try await zone.column("SELECT front FROM card") == ["hund"])
    }

    @Test(arguments: Store.all) func `a change set with a chosen id and a temporary one gives both an id of their own`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        // 8 is the id that the server would assign next.
        let set = #"""
            {"deck":{"create":[8,-1],"attributes":{"8":{"name":"chosen"},"-1":{"name":"given"}}},
             "card":{"create":[-1],"attributes":{"-1":{"deck_id":-1,"front":"hund"}}}}
            """#
        let answer = try await zone.sync(at: 1, device: "d", set)
        #expect(answer.changeSets.last?.isConflict == false)
        #expect(try await zone.column("SELECT id || name FROM deck ORDER BY id") == ["7Danish", "8chosen", "9given"])
        #expect(try await zone.column("SELECT deck_id FROM card") == ["9"])
    }

    @Test(arguments: Store.all) func `a group with a chosen id and a temporary one gives both an id of their own`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        let temporary = #"{"deck":{"create":[-1],"attributes":{"-1":{"name":"given"}}}}"#
        let chosen = #"{"deck":{"create":[8],"attributes":{"8":{"name":"chosen"}}}}"#
        let answers = try await zone.together([temporary, chosen].map { #"{"maxRevision":1,"changeSets":[\#($0)]}"# })
            .map { try Answer($0.get()) }
        #expect(answers.map { $0.changeSets.last?.isConflict } == [false, false])
        #expect(try await zone.column("SELECT id || name FROM deck ORDER BY id") == ["7Danish", "8chosen", "9given"])
    }

    @Test(arguments: Store.all) func `a program that chooses the highest id does not use up the server's ids`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        _ = try await zone.sync(at: 1, device: "d", Self.card(TemporaryID.permanentMax, "last"))
        let set = #"{"card":{"create":[-1],"attributes":{"-1":{"deck_id":7,"front":"hund"}}}}"#
        let answer = try await zone.sync(at: 2, device: "d", set)
        #expect(answer.changeSets.last?.ids("create", "card") == [1])
    }

    @Test(arguments: Store.all) func `the same request again, after a lost answer, changes nothing`(store: Store)
        async throws
    {
        let zone = try await Zone(store, Self.schema)
        let card = Self.card(Self.made, "hund").dropFirst()
        let body = #"""
            {"maxRevision":1,"device":"d","changeSets":[{"id":"b3f1c2a0-0000-4000-8000-000000000001",\#(card)]}
            """#
        let first = try await zone.sync(body)
        let second = try await zone.sync(body)
        #expect(first.changeSets.last?.revision == 2)
        #expect(second.changeSets.last?.revision == 2)
        #expect(second.changeSets.last?.isConflict == false)
        #expect(try await zone.column("SELECT count(*) FROM card") == ["1"])
    }

    @Test(arguments: Store.all) func `a deleted record may be created again under its id`(store: Store) async throws {
        let zone = try await Zone(store, Self.schema)
        _ = try await zone.sync(at: 1, device: "d", Self.card(Self.made, "hund"))
        _ = try await zone.sync(at: 2, device: "d", #"{"card":{"delete":[\#(Self.made)]}}"#)
        let answer = try await zone.sync(at: 3, device: "d", Self.card(Self.made, "hund"))
        #expect(answer.changeSets.last?.isConflict == false)
        #expect(try await zone.column("SELECT front FROM card") == ["hund"])
    }
}

/// Temporary ids in columns that no foreign key declares: generic relations, logs, an ORM's undeclared keys.
@Suite(.serialized) struct StrayIDTests {
    private static let schema = """
        CREATE TABLE book (id INTEGER PRIMARY KEY, title TEXT);
        CREATE TABLE note (id INTEGER PRIMARY KEY, object_id INTEGER, object TEXT);
        INSERT INTO book VALUES (7, 'old');
        """
    private static let id = 6_973_871_135_653_888
    private static let book = #"{"book":{"create":[-\#(id)],"attributes":{"-\#(id)":{"title":"new"}}}}"#

    private static func note(_ values: String) -> String {
        #"{"note":{"create":[-1],"attributes":{"-1":{\#(values)}}}}"#
    }

    @Test(arguments: Store.all) func `a note finds its new book, although no foreign key is declared`(store: Store)
        async throws
    {
        let zone = try await Zone(store, Self.schema)
        let set = #"""
            {"book":{"create":[-\#(Self.id)],"attributes":{"-\#(Self.id)":{"title":"new"}}},
             "note":{"create":[-1],"attributes":{"-1":{"object_id":\#(Self.id),"object":"\#(Self.id)"}}}}
            """#
        let answer = try await zone.sync(at: 1, device: "d", set)
        #expect(try await zone.column("SELECT object_id || ' ' || object FROM note") == ["8 8"])
        // The author's file needs the new values as well.
        #expect(answer.changeSets.last?.attributes("note", "1")?["object_id"] as? Int == 8)
    }

    @Test(arguments: Store.all) func `a later change set follows the book of an earlier one`(store: Store) async throws
    {
        let zone = try await Zone(store, Self.schema)
        _ = try await zone.sync(at: 1, device: "d", Self.book)
        _ = try await zone.sync(at: 2, device: "d", Self.note(#""object_id":\#(Self.id),"object":"\#(Self.id)""#))
        #expect(try await zone.column("SELECT object_id || ' ' || object FROM note") == ["8 8"])
    }

    @Test(arguments: Store.all) func `a number that is no id of this device stays as it is`(store: Store) async throws {
        let zone = try await Zone(store, Self.schema)
        _ = try await zone.sync(at: 1, device: "d", Self.book)
        _ = try await zone.sync(at: 2, device: "e", Self.note(#""object_id":\#(Self.id),"object":"\#(Self.id)""#))
        #expect(try await zone.column("SELECT object_id || ' ' || object FROM note") == ["\(Self.id) \(Self.id)"])
    }
}

/// Ids that the server lends, so that a device's new records keep their ids.
@Suite(.serialized) struct LendingTests {
    private static let schema = """
        CREATE TABLE book (id INTEGER PRIMARY KEY, title TEXT);
        CREATE TABLE tag (name TEXT PRIMARY KEY);
        INSERT INTO book VALUES (7, 'old');
        """
    private static let request = #"{"maxRevision":1,"device":"d","lend":["book","tag","gone"],"changeSets":[]}"#

    private static func lent(_ zone: Zone) async throws -> [[Int64]] {
        let lent = try await zone.sync(request).object["lent"] as? [String: Any]
        #expect((lent?["tag"] as? [Any])?.isEmpty == true)
        #expect(lent?["gone"] == nil)
        return try #require(lent?["book"] as? [[NSNumber]]).map { $0.map(\.int64Value) }
    }

    @Test(arguments: Store.all) func `no id is lent twice, not even to a device that asks again`(store: Store)
        async throws
    {
        let zone = try await Zone(store, Self.schema)
        var places: [ClosedRange<Int64>] = []
        for _ in 1...20 {
            let ids = try await Self.lent(zone)
            #expect(ids.allSatisfy { $0.count == 4 && $0[3] <= $0[2] && $0[1] < 1 << 52 })
            places += ids.flatMap { ids in
                (0..<3).map { (ids[0] + $0 * ids[2])...(ids[0] + $0 * ids[2] + ids[3] - 1) }
            }
        }
        let sorted = places.sorted { $0.lowerBound < $1.lowerBound }
        #expect(zip(sorted, sorted.dropFirst()).allSatisfy { $0.upperBound < $1.lowerBound })
    }

    @Test(arguments: Store.all) func `the ids that the server assigns are none that it lends`(store: Store) async throws
    {
        let zone = try await Zone(store, Self.schema)
        let ids = try #require(try await Self.lent(zone).first)
        let book = #"{"book":{"create":[\#(ids[0])],"attributes":{"\#(ids[0])":{"title":"lent"}}}}"#
        _ = try await zone.sync(at: 1, device: "d", book)
        let answer = try await zone.sync(at: 2, device: "e", #"{"book":{"create":[-1]}}"#)
        let id = try #require(answer.changeSets.last?.ids("create", "book")?.first)
        #expect(!(ids[0]..<(ids[0] + ids[3])).contains(Int64(id)))
    }

    @Test(arguments: Store.all) func `another program goes on with its own ids after a record with a lent one`(
        store: Store
    ) async throws {
        guard store == .postgres else { return }
        let zone = try await Zone(store, Self.schema)
        let ids = try #require(try await Self.lent(zone).first)
        let book = #"{"book":{"create":[\#(ids[0])],"attributes":{"\#(ids[0])":{"title":"lent"}}}}"#
        _ = try await zone.sync(at: 1, device: "d", book)
        try await zone.writeOutside("INSERT INTO book (title) VALUES ('of psql')")
        #expect(try await zone.column("SELECT id FROM book WHERE title = 'of psql'") == ["8"])
    }
}
