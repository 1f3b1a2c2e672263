import Foundation
import Testing
import TidemarkCore

/// The parser of lists and filters.
@Suite struct RecordQueryTests {
    private static let columns = [
        ("id", "INTEGER"), ("name", "TEXT"), ("area", "REAL"), ("photo", "BLOB"), ("any", ""), ("limit", "INTEGER"),
    ].map { SyncedTable.Column(name: $0.0, type: $0.1, isNotNull: false, defaultSQL: nil) }

    private static let table = SyncedTable(
        name: "city",
        columns: columns,
        key: ["id"],
        keyKind: .integer,
        isAutoincrement: false,
        references: [],
        uniques: [],
        sql: "",
        indexSQL: []
    )

    private static func parse(_ items: (String, String)...) throws(TidemarkError) -> ListQuery {
        try ListQuery(items.map { ListQuery.Item(name: $0.0, value: $0.1) }, of: table)
    }

    private static func code(_ items: [(String, String)]) -> ErrorCode? {
        do throws(TidemarkError) {
            _ = try ListQuery(items.map { ListQuery.Item(name: $0.0, value: $0.1) }, of: table)
            return nil
        } catch { return error.code }
    }

    @Test func `every operator has its condition`() throws {
        let id = Self.columns[0]
        let name = Self.columns[1]
        let expected: [(String, String, RowFilter)] = [
            ("id", "eq.5", .compare(id, .equal, "5")), ("id", "neq.5", .compare(id, .unequal, "5")),
            ("id", "gt.-5", .compare(id, .greater, "-5")), ("id", "gte.5", .compare(id, .greaterOrEqual, "5")),
            ("id", "lt.5.5", .compare(id, .less, "5.5")), ("id", "lte.1e3", .compare(id, .lessOrEqual, "1e3")),
            ("id", "in.(1,2,3)", .isOneOf(id, ["1", "2", "3"])), ("id", "is.null", .isNull(id)),
            ("id", "not.is.null", .not(.isNull(id))), ("name", "like.a*", .isLike(name, "a*")),
            ("name", "eq.5", .compare(name, .equal, #""5""#)), ("id", #"eq."5""#, .compare(id, .equal, #""5""#)),
            ("id", "eq.05", .compare(id, .equal, #""05""#)), ("name", "eq.", .compare(name, .equal, #""""#)),
            ("name", #"eq."a\"b""#, .compare(name, .equal, #""a\"b""#)),
            ("name", "eq.a.b(c)", .compare(name, .equal, #""a.b(c)""#)),
            ("name", "in.(,\",\u{301}\")", .isOneOf(name, [#""""#, "\",\u{301}\""])),
            ("id", #"eq.{"$int":"9007199254740993"}"#, .compare(id, .equal, "9007199254740993")),
            (#""limit""#, "eq.5", .compare(Self.columns[5], .equal, "5")),
            (
                "or", "(id.eq.1,and(name.eq.a,name.not.eq.b),or(id.is.null))",
                .any([
                    .compare(id, .equal, "1"),
                    .all([.compare(name, .equal, #""a""#), .not(.compare(name, .equal, #""b""#))]), .any([.isNull(id)]),
                ])
            ),
        ]
        for (parameter, value, filter) in expected {
            #expect(try Self.parse((parameter, value)).filter == filter, "\(parameter)=\(value)")
        }
    }

    @Test func `all parameters of a list are read, and several filters must all hold`() throws {
        let list = try Self.parse(
            ("select", "name,id,player(*),team(a,b)"),
            ("order", "name.desc,id,area.asc"),
            ("limit", "7"),
            ("count", "exact"),
            ("truncate", "20"),
            ("after", "x"),
            ("id", "gt.1"),
            ("id", "lt.9")
        )
        #expect(list.columns.map(\.name) == ["name", "id"])
        #expect(list.relations.map(\.name) == ["player", "team"])
        #expect(list.relations.map(\.columns) == [[], ["a", "b"]])
        #expect(list.order.map(\.column.name) == ["name", "id", "area"])
        #expect(list.order.map(\.isDescending) == [true, false, false])
        #expect(list.limit == 7)
        #expect(list.count == .exact)
        #expect(list.charactersMax == 20)
        #expect(list.after == "x")
        #expect(list.filter == .all([.compare(Self.columns[0], .greater, "1"), .compare(Self.columns[0], .less, "9")]))
        #expect(try Self.parse(("limit", "all")).limit == nil)
        #expect(try Self.parse(("select", "*")).columns == Self.columns)
    }

    @Test func `what the parser does not know is refused`() {
        let refused: [(String, String)] = [
            ("id", ""), ("id", "5"), ("id", "eq"), ("id", "is.true"), ("id", "is.nullx"), ("id", "not.not.eq.5"),
            ("id", "in.()x"), ("id", "in.(1"), ("id", "in.1"), ("name", #"eq."a"#), ("name", #"eq."a"b"#),
            ("name", #"eq."a\"#), ("id", "like.5"), ("area", "like.5"), ("photo", "like.5"), ("or", ""), ("or", "()"),
            ("or", "(id.eq.1"), ("or", "id.eq.1"), ("or", "(id.eq.1)x"), ("or", "(not.and(id.eq.1))"),
            ("order", "id.up"), ("limit", "0"), ("limit", "1001"), ("limit", "-1"), ("limit", "x"), ("count", "maybe"),
            ("truncate", "0"), ("truncate", "x"), ("select", "player("), ("select", "id,id"), ("select", "player()"),
            ("or", String(repeating: "(or", count: 20)),
            ("id", "in.(\((0...200).map(String.init).joined(separator: ",")))"),
        ]
        for item in refused { #expect(Self.code([item]) == .invalidFilter, "\(item)") }
        for item in [("color", "eq.1"), ("order", "color"), ("select", "color"), ("or", "(color.eq.1)"), ("order", "")]
        {
            #expect(Self.code([item]) == .unknownColumn, "\(item)")
        }
        #expect(Self.code([("limit", "1"), ("limit", "2")]) == .invalidFilter)
    }

    @Test func `no input crashes the parser`() {
        let words = [
            "(", ")", ",", ".", "\"", "\\", "*", "not.", "eq.", "in.(", "is.null", "like.", "or(", "and(", "id", "name",
            "any", "5", "-", "1e9", "\u{301}", "🏳️‍🌈", "{\"$", "desc", "\r\n", "",
        ]
        let names = ["id", "name", "or", "and", "select", "order", "limit", "count", "truncate", "\"", "\"limit\""]
        var random = Congruential(state: 4)
        for _ in 0..<20_000 {
            let count = Int.random(in: 0...8, using: &random)
            let value = (0..<count).map { _ in words[Int.random(in: 0..<words.count, using: &random)] }.joined()
            let name = names[Int.random(in: 0..<names.count, using: &random)]
            let code = Self.code([(name, value)])
            #expect(code == nil || [.invalidFilter, .unknownColumn].contains(code), "\(name)=\(value)")
        }
    }

    @Test func `keys in paths come back as they were`() throws {
        for json in ["5", #""a""#, #""5""#, #""a,b/c""#, #""{\"$""#, "\"\\u0001\"", #"{"$blob":"AP8="}"#, #""""#] {
            let path = RecordPath.text([json])
            let column = json == "5" ? "INTEGER" : "TEXT"
            let table = SyncedTable(
                name: "t",
                columns: [SyncedTable.Column(name: "k", type: column, isNotNull: true, defaultSQL: nil)],
                key: ["k"],
                keyKind: .general,
                isAutoincrement: false,
                references: [],
                uniques: [],
                sql: "",
                indexSQL: []
            )
            let key = try RecordPath.key(path, of: table) { $0.removingPercentEncoding }
            #expect(key == (json == #""{\"$""# ? #"{"$text":"eyIk"}"# : json), "\(json)")
        }
    }
}

/// Random numbers that are the same in every run.
private struct Congruential: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return state ^ (state >> 32)
    }
}
