import Testing
import TidemarkCore

/// A text is JSON or not, a fault has a place, and strings and numbers have exact values.
@Suite struct JSONReaderTests {
    /// Reads a text as one value; the error's message names the first byte that cannot stand where it stands.
    private func read(_ text: String) throws {
        try Array(text.utf8).withUnsafeBufferPointer { bytes in
            var reader = try JSONReader(bytes)
            try reader.skip()
            try reader.finish()
        }
    }

    @Test(arguments: [
        #"{}"#, #" [1, -2.5e+3, 0, "a\n\u00e4\"", true, false, null, {"a": [], "b": {}}] "#, #""""#, "7",
    ])
    func `JSON has no fault`(text: String) { #expect(throws: Never.self) { try read(text) } }

    @Test(arguments: [
        (#"{"a":1,}"#, 7), (#"{"a":1 "b":2}"#, 7), ("[1,]", 3), ("[01]", 2), (#"{"a":nul}"#, 5), (#"{'a':1}"#, 1),
        (#"["\x"]"#, 3), (#"{"a":1}}"#, 7), ("[1.]", 3), (#"{"a"}"#, 4), (#"["\u12G4"]"#, 6), ("[.5]", 1), ("[+1]", 1),
        ("[0x1F]", 2), ("// a comment\n1", 0), ("[1;2]", 2), (#"{a:1}"#, 1), ("[NaN]", 1), ("[Infinity]", 1),
    ])
    func `the first byte that cannot stand there is named`(text: String, offset: Int) {
        let error = #expect(throws: TidemarkError.self) { try read(text) }
        #expect(error?.message.contains("no JSON from byte \(offset + 1) on") == true, "\(String(describing: error))")
    }

    @Test(arguments: ["", "{", #"["a"#, "[1", #"{"a":"#, #""\u00"#, "-"])
    func `a text that ends too early is said to do so`(text: String) {
        let error = #expect(throws: TidemarkError.self) { try read(text) }
        let end = text.isEmpty ? "it is empty" : "it ends after byte \(text.utf8.count)"
        #expect(error?.message.contains(end) == true, "\(String(describing: error))")
    }

    @Test(arguments: ["[\"a\u{1}\"]", "[\u{7}]", "\"\n\"", #"{"a\u0000":1}"#])
    func `a control character is named with its byte`(text: String) {
        let error = #expect(throws: TidemarkError.self) { try read(text) }
        #expect(error?.message.contains("control character, byte") == true, "\(String(describing: error))")
    }

    @Test(arguments: [
        #"{"a":1,"b":2,"a":3}"#, #"[{"x":{"é":1,"\u00e9":2}}]"#,
        "{" + (0..<60).map { "\"name \($0)\":{}" }.joined(separator: ",") + #","name 31":1}"#,
    ])
    func `a name that stands twice in one object is refused, in any spelling and among many`(text: String) {
        let error = #expect(throws: TidemarkError.self) { try read(text) }
        #expect(error?.code == .duplicateName)
    }

    @Test func `equal names in different objects are two names`() {
        #expect(throws: Never.self) { try read(#"{"a":{"a":[{"a":1},{"a":2}]},"b":{"a":1}}"#) }
    }

    @Test(arguments: [
        ("0", Value.integer(0)), ("-0", .integer(0)), ("9223372036854775807", .integer(.max)),
        ("-9223372036854775808", .integer(.min)), ("1.0", .real(1)), ("1e0", .real(1)), ("-2.5E-3", .real(-0.0025)),
        ("true", .integer(1)), ("false", .integer(0)), ("null", .null), (#""a\u0000b""#, .rawText([97, 0, 98])),
        (#""\ud83d\ude00""#, .text("😀")), (#"{"$blob":"AP8="}"#, .blob([0, 255])),
        (#"{"$blob":"AP\u0038="}"#, .blob([0, 255])), (#"{"$text":"/0E="}"#, .rawText([255, 65])),
        (#"{"$text":"QQ=="}"#, .text("A")), (#"{"$real":"-Infinity"}"#, .real(-.infinity)),
    ])
    func `a value is read exactly, and written in one canonical form`(json: String, value: Value) throws {
        let read = try Value(json: json)
        #expect(read == value)
        #expect(try Value(json: String(decoding: read.canonicalJSON, as: UTF8.self)) == value)
    }

    @Test(arguments: [
        "9223372036854775808", "-9223372036854775809", "1e400", #""\ud800""#, #""\ude00\ud83d""#, "[1]", "{}",
        #"{"$blob":"AP8"}"#, #"{"$blob":"A==="}"#, #"{"$blob":1}"#, #"{"$blob":"","x":""}"#, #"{"$real":"NaN"}"#,
        #"{"$add":1}"#, "tru", "",
    ])
    func `a value that no column can hold is refused`(json: String) {
        #expect(throws: InvalidValue.self) { try Value(json: json) }
    }
}
