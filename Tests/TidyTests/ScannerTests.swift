import Testing

/// What the rules rely on: code, comments and strings are told apart.
@Suite struct ScannerTests {
    private func words(_ part: [UInt8]) -> [String] {
        String(decoding: part, as: UTF8.self).split { $0 == " " || $0 == "\n" }.map(String.init)
    }

    @Test(arguments: [
        ("a // b\nc", ["a", "c"]), ("a /* b /* c */ d */ e", ["a", "e"]), ("a \"b \\\" c\" d", ["a", "d"]),
        ("a \"b \\(c(1) + \"d \\(e)\") f\" g", ["a", "(c(1)", "+", "(e)", ")", "g"]),
        ("a #\"b \" \\(c) \\#(d)\"# e", ["a", "(d)", "e"]), ("a \"\"\"\n b \" c\n \"\"\" d", ["a", "d"]),
        ("a `b c` d", ["a", "d"]), ("a = /b\" c/; d", ["a", "=", ";", "d"]), ("a = #/b\" c/d/# e", ["a", "=", "e"]),
        ("a / b / c", ["a", "/", "b", "/", "c"]),
    ]) func `only code is kept`(source: String, expected: [String]) {
        #expect(words(SwiftText(source).code) == expected)
    }

    @Test func `comments and strings are kept apart`() {
        let text = SwiftText("let a = \"// b\" // c \"d\"\n")
        #expect(words(text.strings) == ["\"//", "b\""])
        #expect(words(text.comments) == ["//", "c", "\"d\""])
    }

    @Test func `lines are counted as an editor counts them`() {
        let text = SwiftText("a\nb\n\nc\n")
        #expect(text.lineCount == 4)
        #expect(text.line(at: 0) == 1)
        #expect(text.line(at: 5) == 4)
        #expect(text.line(4, of: text.bytes) == "c")
        #expect(text.line(0, of: text.bytes).isEmpty)
    }

    @Test func `a word is found whole only`() {
        #expect(offsets(of: "print(", in: Array("sprint( print(".utf8)) == [8])
        #expect(offsets(of: "A1", in: Array("A10 A1, (A1)".utf8)) == [4, 9])
        #expect(offsets(of: "a", in: []).isEmpty)
    }
}
