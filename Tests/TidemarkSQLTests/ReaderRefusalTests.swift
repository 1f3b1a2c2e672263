import Testing
import TidemarkCore

@testable import TidemarkSQL

/// Bodies with one fault: refused whole, with the right code and place.
@Suite struct ReaderRefusalTests {
    struct Refused: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let json: String
        let code: ErrorCode
        let place: TidemarkError.Place

        init(
            _ name: String, _ json: String, _ code: ErrorCode, set: Int? = nil, table: String? = nil,
            key: String? = nil, column: String? = nil
        ) {
            testDescription = name
            self.json = json
            self.code = code
            place = .init(changeSet: set, table: table, key: key, column: column)
        }
    }

    private func bench() throws -> TableBench {
        try TableBench(
            """
            CREATE TABLE teams (id INTEGER PRIMARY KEY, name, upper_name AS (upper(name)));
            CREATE TABLE tags (name TEXT PRIMARY KEY, colour TEXT);
            CREATE TABLE members (team INTEGER, person TEXT, role TEXT, PRIMARY KEY (team, person));
            """
        )
    }

    /// Reads any JSON value.
    private static func read(_ body: [UInt8]) throws {
        try body.withUnsafeBufferPointer { bytes in
            var reader = try JSONReader(bytes)
            try reader.skip()
            try reader.finish()
        }
    }

    private static func attributes(_ members: String) -> String {
        #"[{},{"teams":{"create":[-1],"attributes":{"-1":{\#(members)}}}}]"#
    }

    private static let duplicates: [Refused] = [
        Refused("a table twice", #"[{"teams":{},"teams":{}}]"#, .duplicateName, set: 0),
        Refused("an id twice", #"[{},{"id":"a","id":"b"}]"#, .duplicateName, set: 1),
        Refused(
            "an operation twice", #"[{"teams":{"create":[-1],"create":[-2]}}]"#, .duplicateName, set: 0, table: "teams"),
        Refused(
            "attributes of one key twice",
            #"[{"teams":{"create":[-1],"attributes":{"-1":{"name":1},"-1":{"name":2}}}}]"#, .duplicateName, set: 0,
            table: "teams", key: "-1"),
        Refused("a column twice", attributes(#""name":1,"name":2"#), .duplicateName, set: 1, table: "teams", key: "-1"),
        Refused(
            "a column twice, once escaped", attributes(#""name":1,"n\u0061me":2"#), .malformedRequest, set: 1,
            table: "teams", key: "-1"),
        Refused(
            "a revision twice", attributes(#""revision":1,"revision":2"#), .duplicateName, set: 1, table: "teams",
            key: "-1"),
        Refused(
            "a tag twice", attributes(#""name":{"$blob":"AA==","$blob":"AQ=="}"#), .duplicateName, set: 1,
            table: "teams", key: "-1", column: "name"),
        Refused(
            "one key in two spellings",
            #"[{"members":{"create":[[1,"A"]],"attributes":{"[1,\"A\"]":{},"[1, \"A\"]":{}}}}]"#, .duplicateName,
            set: 0, table: "members", key: #"[1,"A"]"#),
    ]

    private static let names: [Refused] = [
        Refused(
            "a revision spelled with an escape", attributes(#""name":1,"revis\u0069on":5"#), .malformedRequest, set: 1,
            table: "teams", key: "-1"),
        Refused(
            "attributes spelled with an escape", #"[{"teams":{"create":[-1],"attribut\u0065s":{"-1":{"name":1}}}}]"#,
            .malformedRequest, set: 0, table: "teams"),
        Refused("an unknown table", #"[{"team":{}}]"#, .unknownTable, set: 0, table: "team"),
        Refused(
            "a table of the bookkeeping", #"[{"tidemark_capture":{"delete":[1]}}]"#, .unknownTable, set: 0,
            table: "tidemark_capture"),
        Refused("a table spelled in other case", #"[{"Teams":{}}]"#, .unknownTable, set: 0, table: "Teams"),
        Refused(
            "types with a table that is not there", #"[{"types":["teams","tags"],"teams":{}}]"#, .unknownTable, set: 0,
            table: "tags"),
        Refused(
            "an unknown column", attributes(#""nmae":1"#), .unknownColumn, set: 1, table: "teams", key: "-1",
            column: "nmae"),
        Refused(
            "a generated column", attributes(#""upper_name":"X""#), .unknownColumn, set: 1, table: "teams", key: "-1",
            column: "upper_name"),
        Refused(
            "the key among the attributes", attributes(#""id":-1"#), .unknownColumn, set: 1, table: "teams", key: "-1",
            column: "id"),
        Refused(
            "SQL in a column's name", attributes(#""name\" = 1; --":1"#), .unknownColumn, set: 1, table: "teams",
            key: "-1", column: #"name" = 1; --"#),
        Refused("an unknown operation", #"[{"teams":{"upsert":[1]}}]"#, .malformedRequest, set: 0, table: "teams"),
    ]

    private static let keys: [Refused] = [
        Refused(
            "text for an integer key", #"[{"teams":{"delete":["1"]}}]"#, .invalidKey, set: 0, table: "teams", key: "1"),
        Refused(
            "a real for an integer key", #"[{"teams":{"delete":[1.0]}}]"#, .invalidKey, set: 0, table: "teams",
            key: "1.0"),
        Refused("NULL for a key", #"[{"teams":{"delete":[null]}}]"#, .invalidKey, set: 0, table: "teams"),
        Refused(
            "an integer key beyond 64 bits", #"[{"teams":{"delete":[9223372036854775808]}}]"#, .invalidKey, set: 0,
            table: "teams"),
        Refused(
            "an integer for a text key", #"[{"tags":{"delete":[1]}}]"#, .invalidKey, set: 0, table: "tags", key: "1"),
        Refused(
            "a text key cut short at an escaped NUL", #"[{"tags":{"delete":["a\u0000b"]}}]"#, .invalidKey, set: 0,
            table: "tags"),
        Refused(
            "a text key of half a surrogate pair", #"[{"tags":{"delete":["\ud83d"]}}]"#, .invalidKey, set: 0,
            table: "tags"),
        Refused(
            "one part for a key of two", #"[{"members":{"delete":[1]}}]"#, .invalidKey, set: 0, table: "members",
            key: "1"),
        Refused(
            "three parts for a key of two", #"[{"members":{"delete":[[1,"A",2]]}}]"#, .invalidKey, set: 0,
            table: "members", key: #"[1,"A",2]"#),
        Refused(
            "an array inside a key", #"[{"members":{"delete":[[1,["A"]]]}}]"#, .invalidKey, set: 0, table: "members"),
        Refused(
            "a record twice in one list", #"[{"teams":{"delete":[1,1]}}]"#, .malformedRequest, set: 0, table: "teams",
            key: "1"),
        Refused(
            "a record updated and deleted", #"[{"teams":{"update":[1],"delete":[1]}}]"#, .malformedRequest, set: 0,
            table: "teams", key: "1"),
        Refused(
            "attributes of an unlisted record", #"[{"teams":{"update":[1],"attributes":{"2":{"name":1}}}}]"#,
            .malformedRequest, set: 0, table: "teams", key: "2"),
        Refused(
            "attributes of a deleted record", #"[{"teams":{"delete":[1],"attributes":{"1":{"name":1}}}}]"#,
            .malformedRequest, set: 0, table: "teams", key: "1"),
        Refused(
            "attributes under a key with zeros", #"[{"teams":{"update":[7],"attributes":{"007":{"name":1}}}}]"#,
            .malformedRequest, set: 0, table: "teams", key: "007"),
    ]

    private static func value(_ name: String, _ json: String) -> Refused {
        Refused(name, attributes(#""name":\#(json)"#), .invalidValue, set: 1, table: "teams", key: "-1", column: "name")
    }

    private static let values: [Refused] = [
        value("an integer one beyond 64 bits", "9223372036854775808"),
        value("a negative integer beyond 64 bits", "-9223372036854775809"),
        value("an integer of forty digits", String(repeating: "9", count: 40)), value("a real beyond doubles", "1e400"),
        value("a blob that is not base64", #"{"$blob":"?"}"#), value("a blob cut short", #"{"$blob":"AP8"}"#),
        value("a blob of a number", #"{"$blob":1}"#), value("a blob with a companion", #"{"$blob":"","x":""}"#),
        value("an object", "{}"), value("an unknown tag", #"{"$date":"2024"}"#), value("NaN", #"{"$real":"NaN"}"#),
        value("an array", "[1]"), value("half a surrogate pair", #""\ud83d""#),
        value("a surrogate pair reversed", #""\ude00\ud83d""#),
        Refused(
            "a revision that is text", attributes(#""revision":"5""#), .invalidValue, set: 1, table: "teams", key: "-1",
            column: "revision"),
    ]

    private static let shapes: [Refused] = [
        Refused("a change set that is a number", "[1]", .malformedRequest),
        Refused("a change set that is an array", "[[]]", .malformedRequest),
        Refused("a table that is an array", #"[{"teams":[]}]"#, .malformedRequest, set: 0, table: "teams"),
        Refused("create as an object", #"[{"teams":{"create":{}}}]"#, .malformedRequest, set: 0, table: "teams"),
        Refused("attributes as an array", #"[{"teams":{"attributes":[]}}]"#, .malformedRequest, set: 0, table: "teams"),
        Refused(
            "a record's attributes as text", #"[{"teams":{"create":[-1],"attributes":{"-1":"x"}}}]"#, .malformedRequest,
            set: 0, table: "teams", key: "-1"),
    ]

    @Test(arguments: duplicates + names + keys + values + shapes)
    func `a body with one fault is refused with the place of the fault`(_ refused: Refused) throws {
        let error = try bench().refusal(refused.json)
        #expect(error.code == refused.code)
        #expect(error.place.changeSet == refused.place.changeSet)
        #expect(error.place.table == refused.place.table)
        if let key = refused.place.key { #expect(error.place.key == key) }
        #expect(error.place.column == refused.place.column)
        #expect(!error.fix.isEmpty)
    }

    @Test func `a refusal names the column and never contains its value`() throws {
        let secret = "hunter2"
        for json in [#"{"$blob":"\#(secret)!"}"#, #"["\#(secret)"]"#, #"{"\#(secret)":1}"#, #""\#(secret)\ud800""#] {
            let error = try bench().refusal(Self.attributes(#""name":\#(json)"#))
            #expect(!error.description.contains(secret), "\(error)")
        }
    }

    @Test func `JSON of sixty-four levels is read, and deeper JSON is refused`() throws {
        let nested = { (depth: Int) in
            Array((String(repeating: "[", count: depth) + String(repeating: "]", count: depth)).utf8)
        }
        #expect(throws: Never.self) { try Self.read(nested(64)) }
        let error = #expect(throws: TidemarkError.self) { try Self.read(nested(65)) }
        #expect(error?.code == .malformedRequest)
        #expect(throws: TidemarkError.self) { try bench().read(nested(100_000)) }
    }

    @Test func `brackets inside strings do not count as levels`() throws {
        let text = #"["\#(String(repeating: "[{", count: 500))\"[[["]"#
        #expect(throws: Never.self) { try Self.read(Array(text.utf8)) }
    }

    @Test func `in a large body characters may cross chunks, and invalid UTF-8 is refused anywhere`() throws {
        // A body is scanned in chunks of 64 KiB.
        for begin in (1 << 16) - 9...(1 << 16) + 2 {
            let text = "\"" + String(repeating: "a", count: begin - 1) + "é😀€"
            let body = Array((text + String(repeating: "ü", count: 70_000) + "\"").utf8)
            #expect(throws: Never.self) { try Self.read(body) }
            for place in begin..<begin + 9 {
                var broken = body
                broken.remove(at: place)
                #expect(throws: TidemarkError.self, "byte \(place)") { try Self.read(broken) }
            }
        }
    }

    @Test func `a name with quotation marks is one name in SQL`() {
        #expect(SQLText.name("a\"b\"") == "\"a\"\"b\"\"\"")
        #expect(SQLText.name("Ölstand") == "\"Ölstand\"")
        #expect(SQLText.literal("it's 'so'") == "'it''s ''so'''")
        #expect(SQLText.literal("") == "''")
    }

    @Test(arguments: [[0xFF], [0xC0, 0xAF], [0xED, 0xA0, 0x80], [0xF4, 0x90, 0x80, 0x80]])
    func `a body that is not UTF-8 is refused with advice`(bytes: [UInt8]) throws {
        let body = Array(#"[{"teams":{"create":[-1],"attributes":{"-1":{"name":""#.utf8)
        let error = #expect(throws: TidemarkError.self) { try bench().read(body + bytes + Array(#""}}}}]"#.utf8)) }
        #expect(error?.code == .malformedRequest)
        #expect(error?.fix.contains("$blob") == true)
    }

    @Test func `records read before a refusal are gone for the next body`() throws {
        let bench = try bench()
        _ = try bench.read(#"[{"teams":{"create":[-1]}}]"#)
        _ = try bench.refusal(#"[{"teams":{"create":[-2]}},{"nobody":{}}]"#)
        #expect(try bench.read(#"[{"teams":{"create":[-3]}}]"#) == ["0 create teams -3"])
    }
}
