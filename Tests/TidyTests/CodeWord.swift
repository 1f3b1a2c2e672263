/// A word of the code of a source, with what stands around it.
struct CodeWord {
    let text: String
    /// The byte before it.
    let last: UInt8
    /// The byte after it, blanks aside.
    let next: UInt8
    /// The braces that are open.
    let depth: Int
    /// Whether it belongs to the type of a function's result.
    let isResult: Bool
    /// Whether it is the first word of its line, and the blanks before it.
    let indent: Int?

    /// All words of a source, in their order, without those of comments and strings.
    static func all(in text: SwiftText) -> [CodeWord] {
        let code = text.code
        var words: [CodeWord] = []
        var depth = 0
        var parentheses = 0
        var isResult = false
        var lineStart: Int? = 0
        var position = 0
        while position < code.count {
            let byte = code[position]
            guard byte.isWord else {
                switch byte {
                case .openBrace: depth += 1
                case .closeBrace: depth -= 1
                case .openParenthesis: parentheses += 1
                case .closeParenthesis: parentheses -= 1
                case .newline: lineStart = position + 1
                case UInt8(ascii: ">")
                where parentheses == 0 && position > 0 && code[position - 1] == UInt8(ascii: "-"):
                    isResult = true
                default: break
                }
                position += 1
                continue
            }
            let start = position
            while position < code.count, code[position].isWord { position += 1 }
            let word = String(decoding: code[start..<position], as: UTF8.self)
            if parentheses == 0, ["func", "var", "let", "init", "subscript"].contains(word) { isResult = false }
            words.append(
                CodeWord(
                    text: word, last: start > 0 ? code[start - 1] : .newline,
                    next: code[position...].first { $0 != .space } ?? .newline, depth: depth, isResult: isResult,
                    indent: lineStart.map { start - $0 }))
            lineStart = nil
        }
        return words
    }
}

/// A source and its words.
struct SourceWords {
    let path: String
    let text: SwiftText
    let words: [CodeWord]

    init(path: String, text: SwiftText) {
        self.path = path
        self.text = text
        words = CodeWord.all(in: text)
    }

    var target: String { targetName(of: path) }
}
