import StoreTestSupport
import Testing

@testable import TidemarkCore
@testable import TidemarkEngine

/// Questions about the rows of one table.
extension ZoneContractTests {
    /// The zone with four more teams at revision 2: Aue, Ulm, Ems and zwei, with the ids 3 to 6.
    private static func teams(_ kind: SeamZone.Kind) async throws -> SeamZone {
        let zone = try await zone(kind)
        try await zone.sync(
            at: 1,
            #"""
            {"team":{"create":[-1,-2,-3,-4],"attributes":{"-1":{"name":"Aue","rank":2,"note":"x"},"-2":{"name":"Ulm"},
                "-3":{"name":"Ems","rank":1,"note":"y"},"-4":{"name":"zwei","rank":-5}}}}
            """#)
        return zone
    }

    private static let rows: [[Value]] = [
        kiel, [.integer(2), .text("Trier"), .integer(2), .null],
        [.integer(3), .text("Aue"), .integer(2), .text("x")], [.integer(4), .text("Ulm"), .null, .null],
        [.integer(5), .text("Ems"), .integer(1), .text("y")], [.integer(6), .text("zwei"), .integer(-5), .null],
    ]

    @Test(arguments: SeamZone.Kind.allCases)
    func `a filter selects rows as SQL does: NULL is neither equal nor unequal`(kind: SeamZone.Kind) async throws {
        let found = try await Self.teams(kind).transaction { zone in
            let table = zone.schema.tables[Self.team]
            let name = table.columns[1]
            let rank = table.columns[2]
            let note = table.columns[3]
            let two = RowFilter.compare(rank, .equal, "2")
            let filters: [RowFilter] = [
                two, .compare(rank, .unequal, "2"), .compare(rank, .greater, "1"), .compare(rank, .greaterOrEqual, "1"),
                .compare(rank, .less, "1"), .compare(rank, .lessOrEqual, "1"), .isNull(rank), .not(.isNull(rank)),
                .not(two), .isOneOf(rank, ["1", "-5"]), .compare(name, .less, #""U""#),
                .all([.compare(rank, .greaterOrEqual, "1"), .isNull(note)]),
                .any([.compare(rank, .equal, "-5"), .compare(note, .equal, #""x""#)]),
                .not(.all([two, .compare(note, .equal, #""x""#)])),
            ]
            return try filters.map { filter in
                var query = RowQuery(table, limit: 100, bytesMax: .max)
                query.filter = filter
                return try zone.rows(query).rows.map(\.key).joined()
            }
        }
        #expect(
            found == [
                "23", "156", "23", "1235", "6", "156", "4", "12356", "156", "156", "1235", "12", "36", "156",
            ])
    }

    @Test(arguments: SeamZone.Kind.allCases)
    func `pages of two rows follow each other in any order, with NULL lowest`(kind: SeamZone.Kind) async throws {
        let found = try await Self.teams(kind).transaction { zone in
            let table = zone.schema.tables[Self.team]
            let name = table.columns[1]
            let rank = table.columns[2]
            let orders: [[RowQuery.Order]] = [
                [], [.init(column: rank, isDescending: false)], [.init(column: rank, isDescending: true)],
                [.init(column: name, isDescending: false)],
                [.init(column: rank, isDescending: false), .init(column: name, isDescending: true)],
            ]
            return try orders.map { order in
                var query = RowQuery(table, limit: 2, bytesMax: .max)
                query.order = order
                var pages: [String] = []
                while true {
                    let page = try zone.rows(query)
                    pages.append(page.rows.map(\.key).joined())
                    guard page.hasMore, let last = page.rows.last, pages.count < 9 else { return pages }
                    query.after = last.position
                }
            }
        }
        #expect(
            found == [
                ["12", "34", "56"], ["46", "15", "23"], ["32", "51", "64"], ["35", "12", "46"], ["46", "15", "23"],
            ])
    }

    @Test(arguments: SeamZone.Kind.allCases)
    func `a row comes with its last revision and its values in JSON, and by its key if that is wanted`(
        kind: SeamZone.Kind
    ) async throws {
        let (page, first) = try await Self.teams(kind).transaction { zone in
            var query = RowQuery(zone.schema.tables[Self.team], limit: 3, bytesMax: .max)
            query.keys = ["1", "5", "77"]
            query.columns.removeFirst()
            let page = try zone.rows(query)
            // A page has at least one row.
            return (page, try zone.rows(RowQuery(zone.schema.tables[Self.team], limit: 3, bytesMax: 1)))
        }
        #expect(page.rows.map(\.key) == ["1", "5"] && !page.hasMore)
        #expect(page.rows.map(\.revision) == [1, 2])
        #expect(page.rows.map(\.cells) == [[#""Kiel""#, "1", "null"], [#""Ems""#, "1", #""y""#]])
        #expect(page.rows.map(\.position.key) == [["1"], ["5"]])
        #expect(first.rows.map(\.key) == ["1"] && first.hasMore)
    }

    @Test(arguments: SeamZone.Kind.allCases)
    func `the sum of a range counts its rows and adds up their hashes`(kind: SeamZone.Kind) async throws {
        let (halves, filtered, single, cups, layouts) = try await Self.teams(kind).transaction { zone in
            let teams = zone.schema.tables[Self.team]
            let name = teams.name
            let ranges = [
                KeyRange(table: name, to: .integer(3)), KeyRange(table: name, from: .integer(3), to: .integer(7)),
                KeyRange(table: name, from: .integer(7)),
            ]
            let two = RowFilter.compare(teams.columns[2], .equal, "2")
            let cup = zone.schema.tables[zone.schema.places["cup"] ?? 0]
            let keys = [
                KeyRange(table: "cup", to: .json(#""h""#)), KeyRange(table: "cup", from: .json(#""h""#)),
            ]
            return (
                try zone.fingerprints(FingerprintQuery(teams, where: nil, in: ranges)),
                try zone.fingerprints(FingerprintQuery(teams, where: two, in: ranges)),
                try zone.fingerprints(FingerprintQuery(teams, where: two, in: ranges, rowsMax: 9)),
                try zone.fingerprints(FingerprintQuery(cup, where: nil, in: keys)), zone.schema
            )
        }
        func sum(_ place: String, _ rows: [[Value]]) -> Fingerprint {
            var buffer: [UInt8] = []
            let layout = layouts.layouts[layouts.places[place] ?? 0]
            return rows.reduce(.none) { $0 + layout.hash($1, key: layout.key(of: $1), &buffer) }
        }
        #expect(
            halves == [
                RowSum(range: 0, rows: 2, fingerprint: sum("team", Array(Self.rows[..<2]))),
                RowSum(range: 1, rows: 4, fingerprint: sum("team", Array(Self.rows[2...]))),
            ])
        #expect(
            filtered == [
                RowSum(range: 0, rows: 1, fingerprint: sum("team", [Self.rows[1]])),
                RowSum(range: 1, rows: 1, fingerprint: sum("team", [Self.rows[2]])),
            ])
        #expect(single.map(\.key) == ["2", "3"] && single.map(\.fingerprint) == filtered.map(\.fingerprint))
        #expect(cups == [RowSum(range: 0, rows: 1, fingerprint: sum("cup", [Self.gold]))])
    }

    @Test(arguments: SeamZone.Kind.allCases)
    func `the zone's fingerprint is that of its rows, also after a recomputation`(kind: SeamZone.Kind) async throws {
        let (stored, computed) = try await Self.teams(kind).transaction { zone in
            (try zone.fingerprint(at: 2), try zone.recomputeFingerprint())
        }
        #expect(stored == computed)
        #expect(computed != .none)
    }
}
