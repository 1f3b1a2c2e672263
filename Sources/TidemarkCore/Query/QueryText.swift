/// A reader of the small languages in a query, by scalars: a comma before a combining mark is a comma as well.
struct QueryText {
    private var rest: Substring.UnicodeScalarView

    init(_ text: some StringProtocol) { rest = Substring(text).unicodeScalars }

    var isAtEnd: Bool { rest.isEmpty }

    /// Takes a character, if it comes next.
    mutating func take(_ character: Unicode.Scalar) -> Bool {
        guard rest.first == character else { return false }
        rest.removeFirst()
        return true
    }

    mutating func take(word: String) -> Bool {
        guard rest.starts(with: word.unicodeScalars) else { return false }
        rest.removeFirst(word.unicodeScalars.count)
        return true
    }

    /// Reads a quoted text, or the text up to one of the characters; nil if a quote does not end.
    mutating func text(upTo ends: Set<Unicode.Scalar>) -> Text? {
        guard take("\"") else {
            let text = rest.prefix { !ends.contains($0) }
            rest = rest[text.endIndex...]
            return Text(content: String(text), isQuoted: false)
        }
        var content = String.UnicodeScalarView()
        while let character = rest.popFirst() {
            switch character {
            case "\"": return Text(content: String(content), isQuoted: true)
            case "\\":
                guard let escaped = rest.popFirst() else { return nil }
                content.append(escaped)
            default: content.append(character)
            }
        }
        return nil
    }

    /// Everything that is not read yet.
    mutating func remainder() -> String {
        defer { rest.removeAll() }
        return String(rest)
    }

    struct Text: Hashable {
        let content: String
        let isQuoted: Bool
    }
}
