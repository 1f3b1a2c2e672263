import Foundation

/// A Swift source whose bytes are told apart: code, comments, strings and quoted names.
///
/// Rules about calls look at code only, rules about reasons at comments only, so that neither
/// is misled by a word in a string.
struct SwiftText {
    /// What a byte belongs to.
    enum Kind {
        case code
        case comment
        case string
        case multilineString
        /// A name between backticks, such as a test's.
        case name
    }

    /// The source as written.
    let bytes: [UInt8]

    /// The source with everything blanked that is not code.
    let code: [UInt8]

    /// The source with everything blanked that is not a comment.
    let comments: [UInt8]

    /// The source with everything blanked that is not in a string literal.
    let strings: [UInt8]

    private let kinds: [Kind]
    private let lineStarts: [Int]

    init(_ text: String) {
        var scanner = SwiftScanner(text)
        scanner.scan()
        bytes = scanner.bytes
        kinds = scanner.kinds
        code = Self.keep([.code], of: scanner)
        comments = Self.keep([.comment], of: scanner)
        strings = Self.keep([.string, .multilineString], of: scanner)
        lineStarts = [0] + bytes.indices.filter { scanner.bytes[$0] == .newline }.map { $0 + 1 }
    }

    /// The number of lines, a last empty one not counted.
    var lineCount: Int { bytes.last == .newline ? lineStarts.count - 1 : lineStarts.count }

    /// The line that holds a byte, counted from 1.
    func line(at offset: Int) -> Int {
        var low = 0
        var high = lineStarts.count
        while high - low > 1 {
            let middle = (low + high) / 2
            if lineStarts[middle] <= offset { low = middle } else { high = middle }
        }
        return low + 1
    }

    /// One line, counted from 1, of the source or of a part such as `comments`.
    func line(_ number: Int, of part: [UInt8]) -> String {
        guard number >= 1, number <= lineStarts.count else { return "" }
        let start = lineStarts[number - 1]
        let end = number < lineStarts.count ? lineStarts[number] - 1 : part.count
        return String(decoding: part[start..<end], as: UTF8.self)
    }

    /// Whether a line begins inside a literal of several lines.
    func isInMultilineString(_ number: Int) -> Bool {
        let start = lineStarts[number - 1]
        return start > 0 && kinds[start - 1] == .multilineString
    }

    /// Whether a line holds a comment.
    func hasComment(_ number: Int) -> Bool { line(number, of: comments).contains { $0 != " " && $0 != "/" } }

    private static func keep(_ wanted: Set<Kind>, of scanner: SwiftScanner) -> [UInt8] {
        zip(scanner.bytes, scanner.kinds).map { byte, kind in byte == .newline || wanted.contains(kind) ? byte : .space
        }
    }
}

/// Finds every occurrence of a text as whole words: `print(` is not found in `sprint(`.
///
/// The C library searches, because a loop over the bytes takes minutes in a debug build.
func offsets(of needle: String, in haystack: [UInt8]) -> [Int] {
    let needle = Array(needle.utf8)
    guard let first = needle.first, let last = needle.last else { return [] }
    return occurrences(of: needle, in: haystack).filter { start in
        let end = start + needle.count
        let joinsBefore = first.isWord && start > 0 && haystack[start - 1].isWord
        let joinsAfter = last.isWord && end < haystack.count && haystack[end].isWord
        return !joinsBefore && !joinsAfter
    }
}

private func occurrences(of needle: [UInt8], in haystack: [UInt8]) -> [Int] {
    haystack.withUnsafeBytes { bytes in
        var found: [Int] = []
        guard let base = bytes.baseAddress, bytes.count >= needle.count else { return found }
        let startsMax = bytes.count - needle.count + 1
        var start = 0
        while start < startsMax, let hit = memchr(base + start, Int32(needle[0]), startsMax - start) {
            let offset = UnsafeRawPointer(hit) - base
            if memcmp(base + offset, needle, needle.count) == 0 { found.append(offset) }
            start = offset + 1
        }
        return found
    }
}

extension UInt8 {
    static let newline = UInt8(ascii: "\n")
    static let space = UInt8(ascii: " ")
    static let openBrace = UInt8(ascii: "{")
    static let closeBrace = UInt8(ascii: "}")
    static let openParenthesis = UInt8(ascii: "(")
    static let closeParenthesis = UInt8(ascii: ")")

    /// Whether the byte can be part of a Swift name.
    var isWord: Bool {
        switch self {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), 0x80...:
            true
        default: false
        }
    }
}
