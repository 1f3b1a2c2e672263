import Testing
import TidemarkCore

/// The matcher of `like`: it agrees with the plainest one, and its work grows with the value only.
@Suite struct TextPatternTests {
    /// Returns whether a text fits, by the definition: a `*` is any text.
    private static func fits(_ text: ArraySlice<Unicode.Scalar>, _ pattern: ArraySlice<Unicode.Scalar>) -> Bool {
        guard let first = pattern.first else { return text.isEmpty }
        guard first == "*" else { return text.first == first && fits(text.dropFirst(), pattern.dropFirst()) }
        return (text.startIndex...text.endIndex).contains { fits(text[$0...], pattern.dropFirst()) }
    }

    private static func matches(_ text: String, _ pattern: String) -> Bool {
        Array(text.utf8).withUnsafeBufferPointer { TextPattern(pattern).matches($0) {} }
    }

    @Test func `every short text and pattern over few letters, and letters of several bytes`() {
        let letters = ["", "a", "b", "ä", "*"]
        var words: Set<String> = [""]
        for _ in 1...4 { words.formUnion(words.flatMap { word in letters.map { word + $0 } }) }
        for text in words.sorted().filter({ !$0.contains("*") }) {
            for pattern in words {
                let expected = Self.fits(Array(text.unicodeScalars)[...], Array(pattern.unicodeScalars)[...])
                #expect(Self.matches(text, pattern) == expected, "\(text) like \(pattern)")
            }
        }
    }

    @Test(arguments: [
        "*" + String(repeating: "a", count: 255) + "b*", "*" + String(repeating: "aab", count: 85) + "c*",
        String(repeating: "*aab", count: 64) + "b", "*b" + String(repeating: "a", count: 250) + "*",
    ])
    func `a pattern that almost fits everywhere costs two steps a byte, as does one that fits nowhere`(pattern: String)
    {
        let bytes = [UInt8](repeating: UInt8(ascii: "a"), count: 3_000_000)
        var pauses = 0
        _ = bytes.withUnsafeBufferPointer { TextPattern(pattern).matches($0) { pauses += 1 } }
        #expect(pauses * TextPattern.stepsPerPause <= 2 * bytes.count)
    }

    private struct TimeOver: Error {}

    @Test func `a match whose time is over ends in the middle of the value`() {
        let bytes = [UInt8](repeating: UInt8(ascii: "a"), count: 1_000_000)
        var pauses = 0
        #expect(throws: TimeOver.self) {
            try bytes.withUnsafeBufferPointer { text in
                try TextPattern("*b*").matches(text) { () throws(TimeOver) in
                    pauses += 1
                    if pauses == 2 { throw TimeOver() }
                }
            }
        }
        #expect(pauses == 2)
    }
}
