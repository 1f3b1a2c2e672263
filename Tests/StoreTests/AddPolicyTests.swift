import Foundation
import StoreTestSupport
import Testing
import TidemarkCore

/// Rule 39: what devices add to a column with the policy `add` adds up, once each, on every store.
@Suite(.serialized) struct AddPolicyTests {
    private static let schema = """
        CREATE TABLE item (
            id INTEGER PRIMARY KEY, name TEXT, stock INTEGER CHECK (stock >= 0 OR stock < -1000),
            sold INTEGER DEFAULT 0);
        INSERT INTO item VALUES (1, 'cup', 10, 0), (2, 'jug', NULL, 0), (3, 'pot', 9223372036854775800, 0);
        """

    private static func zone(_ store: Store, _ policies: [String: ConflictPolicy] = [:]) async throws -> Zone {
        try await Zone(store, schema, policies: policies.merging(["item.stock": .add, "item.sold": .add]) { $1 })
    }

    /// A change set that updates an item.
    private static func update(_ attributes: String, of key: Int = 1, id: Int? = nil) -> String {
        let id = id.map { #""id":"\#(Self.id($0))","# } ?? ""
        return #"{\#(id)"item":{"update":[\#(key)],"attributes":{"\#(key)":{\#(attributes)}}}}"#
    }

    private static func id(_ number: Int) -> String { "6f6d3a4e-0000-4000-8000-\(String(format: "%012d", number))" }

    private static func add(_ delta: Int, id: Int? = nil) -> String { update(#""stock":{"$add":\#(delta)}"#, id: id) }

    private static func stock(_ zone: Zone) async throws -> String {
        try await zone.column("SELECT coalesce(stock, -1) FROM item WHERE id = 1")[0]
    }

    @Test(arguments: Store.all) func `two tills sell without having seen each other, and both sales count`(store: Store)
        async throws
    {
        let zone = try await Self.zone(store)
        let first = try await zone.sync(at: 1, device: "a", Self.add(-2))
        let second = try await zone.sync(at: 1, device: "b", Self.add(-3))
        #expect(first.changeSets.map(\.isConflict) == [false])
        #expect(try await Self.stock(zone) == "5")
        // Everybody gets the value, the second author too.
        #expect(second.changeSets.map { $0.attributes("item", "1")?["stock"] as? Int } == [8, 5])
        let reader = try await zone.sync(at: 1, device: "c")
        #expect(reader.changeSets.map { $0.attributes("item", "1")?["stock"] as? Int } == [8, 5])
    }

    @Test(arguments: Store.all) func `rule 3: a sale that is sent again after a lost answer counts once`(store: Store)
        async throws
    {
        let zone = try await Self.zone(store)
        let body = #"{"maxRevision":1,"device":"a","echo":"ids","changeSets":[\#(Self.add(-2, id: 1))]}"#
        let first = try await zone.bytes(body)
        #expect(try await zone.bytes(body) == first)
        _ = try await zone.sync(at: 1, device: "b", Self.add(-3))
        let again = try await zone.sync(body)
        #expect(again.changeSets.compactMap(\.revision) == [2, 3])
        #expect(try await Self.stock(zone) == "5")
        #expect(try await zone.revision() == 3)
    }

    @Test(arguments: Store.all) func `rule 31: sales in one group add up, as one after another`(store: Store)
        async throws
    {
        let together = try await Self.zone(store)
        let alone = try await Self.zone(store)
        let bodies = (1...5).map {
            #"{"maxRevision":1,"device":"\#($0)","changeSets":[\#(Self.add(-$0 % 3, id: $0))]}"#
        }
        let group = try await together.together(bodies).map { try Answer($0.get()) }
        var single: [Answer] = []
        for body in bodies { single.append(try await alone.sync(body)) }
        #expect(group.map { $0.changeSets.map(\.revision) } == single.map { $0.changeSets.map(\.revision) })
        #expect(try await Self.stock(together) == "4")
        #expect(try await Self.stock(alone) == "4")
        // Additions to different records are written together.
        let apart = try await together.together([
            #"{"maxRevision":6,"device":"6","changeSets":[\#(Self.add(1, id: 6))]}"#,
            #"{"maxRevision":6,"device":"7","changeSets":[\#(Self.update(#""stock":{"$add":-7}"#, of: 3, id: 7))]}"#,
        ])
        #expect(apart.allSatisfy { if case .success = $0 { true } else { false } })
        let sums = ["5", "NULL", "9223372036854775793"]
        #expect(try await together.column("SELECT stock FROM item ORDER BY id") == sums)
    }

    @Test(arguments: Store.all) func `rule 1: a plain value over an unseen sale is a conflict`(store: Store)
        async throws
    {
        let zone = try await Self.zone(store)
        _ = try await zone.sync(at: 1, device: "a", Self.add(-2))
        let late = try await zone.sync(at: 1, device: "b", Self.update(#""stock":10,"name":"mug""#))
        #expect(late.changeSets.last?.reasons.first?["columns"] as? [String] == ["stock"])
        #expect(try await Self.stock(zone) == "8")
        _ = try await zone.sync(at: 2, device: "b", Self.update(#""stock":10"#))
        #expect(try await Self.stock(zone) == "10")
    }

    @Test(arguments: Store.all) func `rule 39: two tills that write the same rest of the stock have not sold one item`(
        store: Store
    ) async throws {
        // Under `lastWriter`, too, the second value would hide that two were sold.
        for policy in [ConflictPolicy.reject, .columns, .lastWriter, .latest] {
            let zone = try await Self.zone(store, ["item": policy])
            let first = try await zone.sync(at: 1, device: "a", Self.update(#""stock":8"#))
            let second = try await zone.sync(at: 1, device: "b", Self.update(#""stock":8"#))
            #expect(first.changeSets.map(\.isConflict) == [false])
            #expect(second.changeSets.last?.rules == ["changed"], "\(policy)")
            #expect(second.changeSets.last?.reasons.first?["columns"] as? [String] == ["stock"], "\(policy)")
            let overSale = try await zone.sync(at: 2, device: "a", Self.add(-2), Self.update(#""stock":6"#))
            #expect(overSale.changeSets.map(\.isConflict) == [false, false], "an author has seen his own")
            let late = try await zone.sync(at: 2, device: "b", Self.update(#""stock":6,"name":"mug""#))
            #expect(late.changeSets.last?.reasons.first?["columns"] as? [String] == ["stock"], "\(policy)")
            #expect(try await Self.stock(zone) == "6")
        }
    }

    @Test(arguments: Store.all) func `rule 1: an author's own sale does not make others' unseen sale a seen one`(
        store: Store
    ) async throws {
        let zone = try await Self.zone(store)
        _ = try await zone.sync(at: 1, device: "a", Self.add(-2))
        let answer = try await zone.sync(at: 1, device: "b", Self.add(-3), Self.update(#""stock":7"#))
        #expect(answer.changeSets.map(\.isConflict) == [false, false, true])
        #expect(try await Self.stock(zone) == "5")
    }

    @Test(arguments: Store.all) func `an addition does not meet the edits of other columns, nor they it`(store: Store)
        async throws
    {
        let zone = try await Self.zone(store)
        _ = try await zone.sync(at: 1, device: "a", Self.update(#""name":"mug""#))
        let sale = try await zone.sync(at: 1, device: "b", Self.update(#""stock":{"$add":-3},"sold":{"$add":3}"#))
        let rename = try await zone.sync(at: 2, device: "c", Self.update(#""name":"big mug""#))
        // A set that also writes a contended column is a conflict, with what it adds.
        let both = try await zone.sync(at: 1, device: "d", Self.update(#""stock":{"$add":-1},"name":"jar""#))
        #expect([sale, rename, both].map { $0.changeSets.last?.isConflict } == [false, false, true])
        #expect(try await zone.column("SELECT name || stock || '/' || sold FROM item WHERE id = 1") == ["big mug7/3"])
    }

    @Test(arguments: Store.all) func `there is nothing to add to a record that is gone, or that has no integer`(
        store: Store
    ) async throws {
        let zone = try await Self.zone(store)
        _ = try await zone.sync(at: 1, device: "a", Self.update(#""stock":null"#))
        let toNull = try await zone.sync(at: 1, device: "b", Self.add(-3))
        #expect(toNull.changeSets.last?.rules == ["changed"])
        #expect(toNull.changeSets.last?.reasons.first?["columns"] as? [String] == ["stock"])
        _ = try await zone.sync(at: 2, device: "a", #"{"item":{"delete":[1]}}"#)
        let toNothing = try await zone.sync(at: 2, device: "b", Self.add(-3))
        #expect(toNothing.changeSets.last?.rules == ["deleted"])
        // Who had seen the NULL sends a faulty request.
        let body = #"{"maxRevision":3,"changeSets":[\#(Self.update(#""stock":{"$add":1}"#, of: 2))]}"#
        let refusal = try await zone.refusal(of: body)
        #expect(refusal?.code == .constraintViolated)
        #expect(refusal?.message == "The table refuses a record: adding gives no integer that fits.")
    }

    @Test(arguments: Store.all) func `a counter may have a name that the format of a change set uses itself`(
        store: Store
    ) async throws {
        let zone = try await Zone(
            store, "CREATE TABLE page (id INTEGER PRIMARY KEY, revision INTEGER); INSERT INTO page VALUES (1, 3)",
            policies: ["page.revision": .add])
        let member = WireName.member(column: "revision")
        let set = { (value: String) in #"{"page":{"update":[1],"attributes":{"1":{"\#(member)":\#(value)}}}}"# }
        for device in ["a", "b"] { _ = try await zone.sync(at: 1, device: device, set(#"{"$add":1}"#)) }
        #expect(try await zone.column("SELECT revision FROM page") == ["5"])
        _ = try await zone.sync(at: 3, device: "a", set("null"))
        let toNull = try await zone.sync(at: 3, device: "b", set(#"{"$add":1}"#))
        #expect(toNull.changeSets.last?.rules == ["changed"])
        #expect(toNull.changeSets.last?.reasons.first?["columns"] as? [String] == ["revision"])
    }

    @Test(arguments: Store.all) func `rule 1: a deletion after an unseen sale is a conflict`(store: Store) async throws
    {
        for policy in [ConflictPolicy.reject, .columns, .lastWriter, .latest] {
            let zone = try await Self.zone(store, ["item": policy])
            _ = try await zone.sync(at: 1, device: "a", Self.add(-2))
            let deletion = try await zone.sync(at: 1, device: "b", #"{"item":{"delete":[1]}}"#)
            #expect(deletion.changeSets.last?.rules == ["changed"])
            #expect(try await Self.stock(zone) == "8")
        }
    }

    @Test(arguments: Store.all) func `B8: under lastWriter a name is overruled while the stock adds up`(store: Store)
        async throws
    {
        let zone = try await Self.zone(store, ["item": .lastWriter])
        _ = try await zone.sync(at: 1, device: "a", Self.update(#""name":"mug","stock":{"$add":-2}"#))
        let late = try await zone.sync(at: 1, device: "b", Self.update(#""name":"jar","stock":{"$add":-3}"#))
        #expect(late.changeSets.map(\.isConflict) == [false, false])
        #expect(try await zone.column("SELECT name || stock FROM item WHERE id = 1") == ["jar5"])
        let notes = try await zone.column("SELECT device || records FROM tidemark_overruled")
        #expect(notes.count == 1 && notes[0].hasPrefix("a") && notes[0].contains(#""lost":{"name":"mug"}"#))
    }

    @Test(arguments: Store.all) func `rule 9: the last item is not sold twice, and no sum leaves 64 bits`(store: Store)
        async throws
    {
        let zone = try await Self.zone(store)
        _ = try await zone.sync(at: 1, device: "a", Self.add(-9))
        let before = try await zone.content()
        for (key, delta) in [(1, -2), (3, 8)] {
            let set = Self.update(#""stock":{"$add":\#(delta)}"#, of: key, id: key)
            let refusal = try await zone.refusal(of: #"{"maxRevision":1,"device":"b","changeSets":[\#(set)]}"#)
            #expect(refusal?.code == .constraintViolated)
            #expect(refusal?.place.id == Self.id(key))
            #expect(refusal?.place.table == "item")
        }
        #expect(try await zone.content() == before)
    }

    @Test(arguments: Store.all) func `another program at the server writes a value, and additions go on from it`(
        store: Store
    ) async throws {
        let zone = try await Self.zone(store)
        try await zone.writeOutside("UPDATE item SET stock = 100 WHERE id = 1")
        _ = try await zone.sync(at: 1, device: "a", Self.add(-2))
        try await zone.writeOutside("UPDATE item SET stock = stock + 1 WHERE id = 1")
        _ = try await zone.sync(at: 1, device: "b", Self.add(-3))
        #expect(try await Self.stock(zone) == "96")
    }

    /// Attributes with a faulty delta, and the column that the error names.
    private static let faults = [
        (#""stock":{"$add":1.5}"#, "stock"), (#""stock":{"$add":"1"}"#, "stock"), (#""stock":{"$add":null}"#, "stock"),
        (#""stock":{"$add":9223372036854775808}"#, "stock"), (#""stock":{"$add":-9223372036854775809}"#, "stock"),
        (#""stock":{"$add":1e2}"#, "stock"), (#""stock":{"$add":1,"more":2}"#, "stock"),
        (#""stock":{"$add":[1]}"#, "stock"), (#""name":{"$add":1}"#, "name"), (#""sold":{"$sub":1}"#, "sold"),
    ]

    @Test(arguments: Store.all) func `rule 9: a faulty delta is refused, and the error names the column`(store: Store)
        async throws
    {
        let zone = try await Self.zone(store)
        let before = try await zone.content()
        for (attributes, column) in Self.faults {
            let sets = "\(Self.add(-1)),\(Self.update(attributes))"
            let refusal = try await zone.refusal(of: #"{"maxRevision":1,"changeSets":[\#(sets)]}"#)
            #expect(refusal?.code == .invalidValue, "\(attributes)")
            #expect(refusal?.place.changeSet == 1 && refusal?.place.table == "item" && refusal?.place.key == "1")
            #expect(refusal?.place.column == column, "\(attributes)")
        }
        let creation = #"{"item":{"create":[-1],"attributes":{"-1":{"stock":{"$add":1}}}}}"#
        let refusal = try await zone.refusal(of: #"{"maxRevision":1,"changeSets":[\#(creation)]}"#)
        #expect(refusal?.code == .invalidValue && refusal?.place.column == "stock")
        for twice in [#""stock":{"$add":1},"stock":{"$add":1}"#, #""stock":1,"stock":{"$add":1}"#] {
            let refusal = try await zone.refusal(of: #"{"maxRevision":1,"changeSets":[\#(Self.update(twice))]}"#)
            #expect(refusal?.code == .duplicateName)
        }
        #expect(try await zone.content() == before)
        // White space, the ends of the range, and a large number of records are no faults.
        _ = try await zone.sync(at: 1, Self.update(#""sold": { "$add" : 9223372036854775807 }"#))
        _ = try await zone.sync(at: 2, Self.update(#""sold":{"$add":-9223372036854775808}"#))
        #expect(try await zone.column("SELECT sold FROM item WHERE id = 1") == ["-1"])
    }

    @Test(arguments: Store.all) func `columns that cannot add up are refused when they are served`(store: Store)
        async throws
    {
        let schema = """
            CREATE TABLE shelf (id INTEGER PRIMARY KEY, number INTEGER UNIQUE);
            CREATE TABLE item (
                id INTEGER PRIMARY KEY, shelf_id INTEGER REFERENCES shelf, name TEXT, price REAL, stock INTEGER);
            """
        let reasons = [
            "item": "it is a table", "item.shelf_id": "it is part of a reference", "shelf.number": "it is unique",
            "item.name": "its type is not an integer", "item.price": "its type is not an integer",
        ]
        for (name, reason) in reasons {
            let error = await #expect(throws: TidemarkError.self) {
                try await Zone(store, schema, policies: [name: .add])
            }
            #expect(error?.code == .invalidArgument)
            #expect(error?.message == "\(name) cannot have the policy add: \(reason).")
        }
        _ = try await Zone(store, schema, policies: ["item.stock": .add])
    }

    @Test(arguments: Store.all) func `one set adds to a thousand records, and renames every second one`(store: Store)
        async throws
    {
        let zone = try await Self.zone(store)
        try await zone.writeOutside(
            store == .postgres
                ? "INSERT INTO item SELECT n, 'item', n, 0 FROM generate_series(4, 1003) AS n"
                : """
                INSERT INTO item WITH number (n) AS (SELECT 4 UNION ALL SELECT n + 1 FROM number WHERE n < 1003)
                SELECT n, 'item', n, 0 FROM number
                """
        )
        _ = try await zone.sync(at: 1)
        let keys = Array(4...1003)
        let attributes = keys.map { #""\#($0)":{"stock":{"$add":\#($0)}\#($0 % 2 == 0 ? #","name":"even""# : "")}"# }
        let set = #"{"item":{"update":\#(keys),"attributes":{\#(attributes.joined(separator: ","))}}}"#
        let answer = try await zone.sync(at: 2, device: "a", set)
        #expect(answer.changeSets.map(\.revision) == [3])
        let wrong = "SELECT count(*) FROM item WHERE id > 3 AND (stock <> 2 * id OR (name = 'even') <> (id % 2 = 0))"
        #expect(try await zone.column(wrong) == ["0"])
    }
}
