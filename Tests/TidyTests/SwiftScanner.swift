/// Walks over a Swift source once and says of each byte what it belongs to.
///
/// It knows the lexical rules that matter for that: comments nest, strings may be raw, may span
/// lines and may hold code in `\( )`, and a slash may open a regular expression.
struct SwiftScanner {
    let bytes: [UInt8]
    private(set) var kinds: [SwiftText.Kind]
    private var position = 0

    init(_ text: String) {
        bytes = Array(text.utf8)
        kinds = Array(repeating: .code, count: bytes.count)
    }

    /// Scans the whole source.
    mutating func scan() { while position < bytes.count { scanToken() } }

    private mutating func scanToken() {
        if starts("//") {
            mark(.comment, while: { $0 != .newline })
        } else if starts("/*") {
            scanBlockComment()
        } else if starts("`") {
            mark(.name, count: 1)
            mark(.name, while: { $0 != UInt8(ascii: "`") })
            mark(.name, count: 1)
        } else if let pounds = opener("\"") {
            scanString(pounds: pounds)
        } else if let pounds = opener("/"), pounds > 0 || opensRegex() {
            scanRegex(pounds: pounds)
        } else {
            position += 1
        }
    }

    private mutating func scanBlockComment() {
        var depth = 0
        repeat {
            if starts("/*") {
                depth += 1
                mark(.comment, count: 2)
            } else if starts("*/") {
                depth -= 1
                mark(.comment, count: 2)
            } else {
                mark(.comment, count: 1)
            }
        } while depth > 0 && position < bytes.count
    }

    private mutating func scanString(pounds: Int) {
        let fence = String(repeating: "#", count: pounds)
        position += pounds
        let isMultiline = starts("\"\"\"")
        position -= pounds
        let kind = isMultiline ? SwiftText.Kind.multilineString : .string
        let quotes = isMultiline ? "\"\"\"" : "\""

        mark(kind, count: pounds + quotes.utf8.count)
        while position < bytes.count {
            if starts(quotes + fence) {
                return mark(kind, count: quotes.utf8.count + pounds)
            } else if starts("\\" + fence + "(") {
                mark(kind, count: 1 + pounds)
                scanInterpolation()
            } else if starts("\\" + fence) {
                mark(kind, count: 2 + pounds)
            } else if !isMultiline && bytes[position] == .newline {
                return
            } else {
                mark(kind, count: 1)
            }
        }
    }

    /// Scans the code of an interpolation, from its parenthesis to the one that closes it.
    private mutating func scanInterpolation() {
        var depth = 0
        repeat {
            if starts("(") { depth += 1 }
            if starts(")") { depth -= 1 }
            scanToken()
        } while depth > 0 && position < bytes.count
    }

    private mutating func scanRegex(pounds: Int) {
        let fence = String(repeating: "#", count: pounds)
        mark(.string, count: pounds + 1)
        while position < bytes.count, !starts("/" + fence) { mark(.string, count: starts("\\") ? 2 : 1) }
        mark(.string, count: 1 + pounds)
    }

    /// Whether the slash here opens a regular expression: it stands where a value may begin,
    /// no space follows it, and another slash closes it on the same line.
    private func opensRegex() -> Bool {
        let before = bytes[..<position].last { $0 != .space }
        guard before.map("=(,:[{\n".utf8.contains) ?? false else { return false }
        let line = bytes[(position + 1)...].prefix { $0 != .newline }
        guard let next = line.first, next != .space else { return false }
        return line.contains(UInt8(ascii: "/"))
    }

    /// The number of `#` before a quote or slash that opens a literal here, `nil` if none does.
    private func opener(_ mark: Character) -> Int? {
        let pounds = bytes[position...].prefix { $0 == UInt8(ascii: "#") }.count
        guard position + pounds < bytes.count else { return nil }
        return bytes[position + pounds] == mark.asciiValue ? pounds : nil
    }

    private func starts(_ text: String) -> Bool { bytes[position...].starts(with: text.utf8) }

    private mutating func mark(_ kind: SwiftText.Kind, count: Int) {
        let end = min(position + count, bytes.count)
        for offset in position..<end { kinds[offset] = kind }
        position = end
    }

    private mutating func mark(_ kind: SwiftText.Kind, while condition: (UInt8) -> Bool) {
        mark(kind, count: bytes[position...].prefix(while: condition).count)
    }
}
