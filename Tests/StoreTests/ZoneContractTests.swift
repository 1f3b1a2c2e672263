import StoreTestSupport
import Testing

@testable import TidemarkCore
@testable import TidemarkEngine

/// The contract of the seam: what ``TidemarkEngine/CommitTransaction`` promises to the commit, on both stores and on
/// the model, which has the same promises in a few lines.
@Suite(.serialized) struct ZoneContractTests {
    static let schema = """
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, rank INTEGER, note TEXT);
        CREATE TABLE player (
            id INTEGER PRIMARY KEY, team_id INTEGER REFERENCES team ON DELETE CASCADE,
            mentor_id INTEGER REFERENCES player ON DELETE SET NULL, name TEXT NOT NULL);
        CREATE TABLE cup (code TEXT PRIMARY KEY, team_id INTEGER REFERENCES team, year INTEGER);
        CREATE TABLE season (
            team_id INTEGER NOT NULL REFERENCES team ON DELETE CASCADE, year INTEGER NOT NULL, points REAL,
            PRIMARY KEY (team_id, year));
        CREATE TABLE medal (code TEXT PRIMARY KEY, team_id INTEGER REFERENCES team ON DELETE RESTRICT);
        """

    /// A zone at revision 1: teams Kiel and Trier; Anna and Ben of Kiel, whose mentor is Anna; and Trier's gold cup.
    static func zone(_ kind: SeamZone.Kind) async throws -> SeamZone {
        let zone = try await SeamZone(kind, schema)
        let answer = try await zone.sync(
            at: 0, device: "first",
            #"""
            {"team":{"create":[-1,-2],"attributes":{"-1":{"name":"Kiel","rank":1},"-2":{"name":"Trier","rank":2}}},
             "player":{"create":[-3,-4],"attributes":{"-3":{"team_id":-1,"name":"Anna"},
                "-4":{"team_id":-1,"mentor_id":-3,"name":"Ben"}}},
             "cup":{"create":["gold"],"attributes":{"gold":{"team_id":-2,"year":1999}}}}
            """#)
        #expect(answer.maxRevision == 1)
        return zone
    }

    static let team = 0
    static let kiel: [Value] = [.integer(1), .text("Kiel"), .integer(1), .null]
    static let gold: [Value] = [.text("gold"), .integer(2), .integer(1999)]

    // MARK: Records

    @Test(arguments: SeamZone.Kind.allCases)
    func `a creation of a record that exists is contended, and comes with its row`(kind: SeamZone.Kind) async throws {
        let found = try await Self.zone(kind).transaction { zone in
            try zone.contentions([
                BasedChange(name: zone.name("team", "1"), operation: .create, base: 1),
                BasedChange(name: zone.name("team", "9"), operation: .create, base: 1),
                BasedChange(name: zone.name("cup", #""gold""#), operation: .create, base: 1),
                BasedChange(name: zone.name("cup", #""Gold""#), operation: .create, base: 1),
            ])
        }
        #expect(found == [0: Contention(exists: true, row: Self.kiel), 2: Contention(exists: true, row: Self.gold)])
    }

    @Test(arguments: SeamZone.Kind.allCases)
    func `a change of a record that changed after its base, or is gone, is contended`(kind: SeamZone.Kind) async throws
    {
        let zone = try await Self.zone(kind)
        _ = try await zone.sync(at: 1, #"{"team":{"update":[1],"attributes":{"1":{"note":"new"}}}}"#)
        let found = try await zone.transaction { zone in
            try zone.contentions([
                BasedChange(name: zone.name("team", "1"), operation: .update, base: 1),
                BasedChange(name: zone.name("team", "1"), operation: .delete, base: 1),
                BasedChange(name: zone.name("team", "1"), operation: .update, base: 2),
                BasedChange(name: zone.name("team", "2"), operation: .delete, base: 1),
                BasedChange(name: zone.name("team", "9"), operation: .update, base: 2),
                BasedChange(name: zone.name("team", "9"), operation: .delete, base: 2),
            ])
        }
        let changed: [Value] = Self.kiel.dropLast() + [.text("new")]
        #expect(found[0] == Contention(exists: true, row: changed))
        #expect(found[1] == Contention(exists: true, row: nil), "a deletion needs no row")
        #expect(found[2] == nil && found[3] == nil, "their authors know everything")
        #expect(found[4] == Contention(exists: false, row: nil) && found[5] == found[4])
    }

    @Test(arguments: SeamZone.Kind.allCases)
    func `rows of records that do not exist, or whose key is spelled another way, are left out`(kind: SeamZone.Kind)
        async throws
    {
        let found = try await Self.zone(kind).transaction { zone in
            let names = [("team", "1"), ("team", "9"), ("cup", #""gold""#), ("cup", #""GOLD""#)]
            return try zone.records(.rows(names.map { zone.name($0, $1) })).rows.map { $0.value }
        }
        #expect(Set(found) == [Self.kiel, Self.gold])
    }

    @Test(arguments: SeamZone.Kind.allCases)
    func `the children of records are those that refer to them, at most as many as the commit wants`(
        kind: SeamZone.Kind
    ) async throws {
        let zone = try await Self.zone(kind)
        func children(_ table: String, _ keys: [String], max: Int = 100) async throws -> Set<String> {
            try await zone.transaction { zone in
                let names = try zone.records(.children(of: keys.map { zone.name(table, $0) }, max: max)).children
                return Set(names.map(zone.text))
            }
        }
        #expect(try await children("team", ["1"]) == ["player 1", "player 2"])
        #expect(try await children("team", ["1", "2", "9"]) == ["player 1", "player 2", #"cup "gold""#])
        #expect(try await children("player", ["1"]) == ["player 2"], "of the same table")
        #expect(try await children("player", ["2"]).isEmpty)
        #expect(try await children("team", ["1"], max: 1).count == 1)
    }

    @Test(arguments: SeamZone.Kind.allCases)
    func `the holders of a unique value are the other records that have it`(kind: SeamZone.Kind) async throws {
        let zone = try await Self.zone(kind)
        func holders(_ changeSet: String) async throws -> Set<String> {
            try await zone.transaction { zone in
                try zone.reading(changeSet) { try zone.records(.holders(of: ["name"], in: Self.team, $0[0])).holders }
            }
        }
        #expect(try await holders(#"{"team":{"create":[9],"attributes":{"9":{"name":"Kiel"}}}}"#) == ["1"])
        #expect(try await holders(#"{"team":{"update":[2],"attributes":{"2":{"name":"Kiel"}}}}"#) == ["1"])
        #expect(try await holders(#"{"team":{"update":[1],"attributes":{"1":{"name":"Kiel"}}}}"#).isEmpty)
        #expect(try await holders(#"{"team":{"update":[2],"attributes":{"2":{"rank":1}}}}"#).isEmpty, "it has its own")
        #expect(try await holders(#"{"team":{"delete":[2]},"cup":{"update":["gold"]}}"#).isEmpty)
        let two = #"{"team":{"update":[2],"create":[9],"attributes":{"2":{"name":"Kiel"},"9":{"name":"Trier"}}}}"#
        #expect(try await holders(two) == ["1", "2"])
    }

    @Test(arguments: SeamZone.Kind.allCases)
    func `a database with one spelling of a value keeps keys and values as they come`(kind: SeamZone.Kind)
        async throws
    {
        let (keys, values) = try await Self.zone(kind).transaction { zone in
            let changes: [RecordID: TidemarkCore.Operation] = [
                zone.name("team", "1"): .update, zone.name("cup", #""gold""#): .delete,
                zone.name("cup", #""tin""#): .create,
            ]
            let sent = [
                ColumnValue(table: Self.team, column: 1, value: .text("Ä")),
                ColumnValue(table: Self.team, column: 2, value: .integer(-5)),
                ColumnValue(table: Self.team, column: 3, value: .null),
            ]
            return (try zone.records(.keys(changes)).keys, try zone.records(.values(sent)).values)
        }
        #expect(keys.isEmpty)
        #expect(values == [.text("Ä"), .integer(-5), .null])
    }

    // MARK: Ids

    @Test(arguments: SeamZone.Kind.allCases)
    func `a new record never gets an id that a record has or had`(kind: SeamZone.Kind) async throws {
        let zone = try await Self.zone(kind)
        _ = try await zone.sync(at: 1, #"{"team":{"create":[40],"attributes":{"40":{"name":"Bonn"}}}}"#)
        _ = try await zone.sync(at: 2, #"{"team":{"delete":[40]}}"#)
        @Sendable func taken(_ ranges: [ClosedRange<Int64>]) -> [Int64] { Array(ranges.lazy.flatMap { $0 }.prefix(3)) }
        let (first, second) = try await zone.transaction { zone in
            let first = try zone.nextIDs([Self.team: WantedIDs(least: 1, count: 3)])[Self.team] ?? []
            let least = (taken(first).last ?? 0) + 1
            return (first, try zone.nextIDs([Self.team: WantedIDs(least: least, count: 3)])[Self.team] ?? [])
        }
        #expect(taken(first).count == 3 && taken(second).count == 3)
        for ranges in [first, second] {
            #expect(ranges.allSatisfy { !$0.contains(1) && !$0.contains(2) && !$0.contains(40) }, "\(ranges)")
            #expect(zip(ranges, ranges.dropFirst()).allSatisfy { $0.upperBound < $1.lowerBound })
        }
        #expect(taken(first).allSatisfy { id in !second.contains { $0.contains(id) } }, "the commit has taken these")
    }

    @Test(arguments: SeamZone.Kind.allCases)
    func `no two devices are lent an id, and the server assigns none of them`(kind: SeamZone.Kind) async throws {
        let (lent, own) = try await Self.zone(kind).transaction { zone in
            let lent = try (0..<3).map { _ in try zone.lend(["team", "cup"]) }
            return (lent, try zone.nextIDs([Self.team: WantedIDs(least: 1, count: 2)])[Self.team] ?? [])
        }
        #expect(lent.allSatisfy { $0["cup"] == [] }, "their authors choose the keys of cups")
        let regions = lent.map { $0["team"] ?? [] }
        for (device, ids) in regions.enumerated() {
            #expect(!ids.isEmpty)
            let samples = ids.flatMap { [$0.first, $0.end(of: $0.first), $0.first + $0.stride] }
            for other in regions.indices where other != device {
                #expect(!regions[other].contains { samples.contains(where: $0.contains) })
            }
            // The next ids of the file reach to the end of the server's place.
            let assigned = own.flatMap { [$0.lowerBound, $0.upperBound] }.filter { $0 < TemporaryID.assignedMax }
            #expect(!ids.contains { assigned.contains(where: $0.contains) }, "\(own)")
        }
    }
}

// MARK: - Helpers

struct Contention: Hashable, Sendable {
    let exists: Bool
    let row: [Value]?
}

extension SeamZone {
    /// Sends change sets of a device in one request, and reads the answer.
    @discardableResult func sync(at revision: Int64, device: String = "a", _ changeSets: String...) async throws
        -> Answer
    {
        let list = changeSets.joined(separator: ",")
        let body = #"{"maxRevision":\#(revision),"device":"\#(device)","changeSets":[\#(list)]}"#
        let results = try await answer([ZoneRequest(.sync(Array(body.utf8)), access: .local("main"))])
        return try Answer(try results[0].get().text)
    }
}

extension CommitTransaction {
    func name(_ table: String, _ key: String) -> RecordID { RecordID(table: schema.places[table] ?? -1, key: key) }

    func text(_ name: RecordID) -> String { "\(schema.tables[name.table].name) \(name.key)" }

    /// What the authors of changes do not know, by the index of the change.
    func contentions(_ changes: [BasedChange]) throws -> [Int: Contention] {
        let byIndex = Dictionary(uniqueKeysWithValues: changes.enumerated().map { ($0, $1) })
        return try records(.contended(byIndex)).contended.mapValues { Contention(exists: $0.exists, row: $0.row) }
    }

    /// Reads change sets, a list in JSON, as a request has them; `body` uses them while their text is in memory.
    func reading<Success>(_ changeSets: String, _ body: ([PendingChangeSet]) throws -> Success) throws -> Success {
        try Array(#"{"maxRevision":0,"changeSets":[\#(changeSets)]}"#.utf8).withUnsafeBufferPointer { bytes in
            var reader = try JSONReader(bytes)
            let sets = try SyncRequest.read(&reader, names: schema.wireNames, limits: .standard).sets
            return try body(
                sets.map { set in
                    var pending = PendingChangeSet(set, reader)
                    try prepare(&pending)
                    return pending
                })
        }
    }

    /// Writes change sets, and returns a line for each effect, sorted; if it throws, nothing is written.
    func effects(of changeSets: String) throws -> [String] {
        try reading(changeSets) { pending in
            var lines: [String] = []
            try undoable { try write(pending) { lines.append(line($0)) } }.get()
            return lines.sorted()
        }
    }

    /// Writes change sets, and returns the violation that undoes the write; nil if the zone takes them.
    func violation(of changeSets: String) throws -> Violation? {
        do {
            _ = try effects(of: changeSets)
            return nil
        } catch let violation as Violation { return violation }
    }

    private func line(_ effect: Effect) -> String {
        let layout = schema.layouts[effect.table]
        let name = text(RecordID(table: effect.table, key: effect.key))
        let before = effect.before.map { layout.object($0) } ?? "nothing"
        let after = effect.after.map { layout.object($0) } ?? "nothing"
        return "\(name): \(before) -> \(after)"
    }
}
