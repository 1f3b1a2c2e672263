import Testing
import TidemarkCore

@Suite struct JSONPartsTests {
    private static func value(_ path: String..., of json: String) -> String? {
        JSONParts.value(at: path, of: Array(json.utf8)).map { String(decoding: $0, as: UTF8.self) }
    }

    @Test func `a part keeps the spelling of its author`() {
        let members = JSONParts.members(of: #"{"a":1.0,"a":[1e2,"\u0041"],"\n":{}}"#)
        #expect(members?.map(\.name) == ["a", "a", #"\n"#])
        #expect(members?.map(\.value) == ["1.0", #"[1e2,"\u0041"]"#, "{}"])
        #expect(JSONParts.elements(of: #"[1e2,{"a":[]},null]"#) == ["1e2", #"{"a":[]}"#, "null"])
    }

    @Test(arguments: ["", "[1", "[1,]", "[1] ", "[ 1]", "{}", "1", #"["a]"#])
    func `a text that is no array, or has white space, has no elements`(json: String) {
        #expect(JSONParts.elements(of: json) == nil)
    }

    @Test func `a value is found under its names, and of equal names the last one counts`() {
        let json = #"{"t":{"attributes":{"1":{"n":1},"2":{"n":2}}},"t":{"attributes":{"1":{"n":3}}},"x":[{"t":4}]}"#
        #expect(Self.value("t", "attributes", "1", of: json) == #"{"n":3}"#)
        #expect(Self.value("t", "attributes", "2", of: json) == nil)
        #expect(Self.value("x", "t", of: json) == nil)
        #expect(Self.value("x", of: json) == #"[{"t":4}]"#)
        #expect(Self.value("t", of: json + "}") == nil)
    }
}
