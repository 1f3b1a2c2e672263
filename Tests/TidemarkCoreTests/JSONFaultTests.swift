import Testing
import TidemarkCore

/// Where a body that somebody wrote by hand stops being JSON.
@Suite struct JSONFaultTests {
    @Test(arguments: [
        #"{}"#, #" [1, -2.5e+3, 0, "a\n\u00e4\"", true, false, null, {"a": [], "b": {}}] "#, #""""#, "7",
    ])
    func `JSON has no fault`(text: String) { #expect(JSONFault.offset(in: Array(text.utf8)) == nil) }

    @Test(arguments: [
        ("", 0), ("{", 1), (#"{"a":1,}"#, 7), (#"{"a":1 "b":2}"#, 7), ("[1,]", 3), ("[01]", 2), (#"{"a":nul}"#, 5),
        (#"{'a':1}"#, 1), (#"["\x"]"#, 3), (#"{"a":1}}"#, 7), ("[1.]", 3), (#"["a"#, 3), (#"{"a"}"#, 4),
    ])
    func `the first byte that cannot stand there is named`(text: String, offset: Int) {
        #expect(JSONFault.offset(in: Array(text.utf8)) == offset)
    }
}
