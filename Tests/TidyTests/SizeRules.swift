/// Sizes beyond which a thing no longer fits in a reader's head.
enum Size {
    static let functionLinesMax = 70
    static let sourceLinesMax = 500
    static let testLinesMax = 800
    static let columnsMax = 120
}

/// Reports a file that holds more than one idea.
func overlongFile(_ path: String, _ text: SwiftText) -> [Finding] {
    let limit = path.hasPrefix("Tests/") ? Size.testLinesMax : Size.sourceLinesMax
    guard text.lineCount > limit else { return [] }
    return [Finding(path, limit + 1, "\(text.lineCount) lines, at most \(limit): split by idea")]
}

/// Reports lines that do not fit two abreast; SQL and other literals, and URLs, may be longer.
func overlongLines(_ path: String, _ text: SwiftText) -> [Finding] {
    (1...max(1, text.lineCount)).compactMap { number in
        let line = text.line(number, of: text.bytes)
        guard line.count > Size.columnsMax, !line.contains("://") else { return nil }
        guard !text.isInMultilineString(number), !endsInLiteral(line) else { return nil }
        return Finding(path, number, "\(line.count) columns, at most \(Size.columnsMax)")
    }
}

/// Whether a line is long for the sake of a string, a test's name, or a row of a table.
private func endsInLiteral(_ line: some StringProtocol) -> Bool {
    let code = line.drop { $0 == " " }
    if code.hasPrefix("//") { return code.hasPrefix("/// |") }
    return code.contains("\"") || code.contains("func `")
}

/// Reports functions, and properties with a body, that do not fit on a screen.
func overlongFunctions(_ path: String, _ text: SwiftText) -> [Finding] {
    ["func", "init", "deinit", "subscript", "var"].flatMap { keyword in
        offsets(of: keyword, in: text.code).compactMap { start in
            guard let end = bodyEnd(of: keyword, at: start, in: text.code) else { return nil }
            let first = text.line(at: start)
            let count = text.line(at: end) - first + 1
            guard count > Size.functionLinesMax else { return nil }
            let head = text.line(first, of: text.bytes).drop { $0 == " " }
            return Finding(
                path, first, "`\(head)` is \(count) lines long, at most \(Size.functionLinesMax): split by step")
        }
    }
}

/// The offset of the brace that closes a declaration's body; `nil` when it has no body.
private func bodyEnd(of keyword: String, at start: Int, in code: [UInt8]) -> Int? {
    let isCall = start > 0 && code[start - 1] == UInt8(ascii: ".")
    guard !isCall, let open = bodyStart(of: keyword, at: start, in: code) else { return nil }
    var depth = 0
    for offset in open..<code.count {
        if code[offset] == .openBrace { depth += 1 }
        if code[offset] == .closeBrace { depth -= 1 }
        if depth == 0 { return offset }
    }
    return nil
}

/// The first brace outside all parentheses, before the enclosing one closes.
private func bodyStart(of keyword: String, at start: Int, in code: [UInt8]) -> Int? {
    var depth = 0
    for offset in start..<code.count {
        switch code[offset] {
        case .openParenthesis, UInt8(ascii: "["): depth += 1
        case .closeParenthesis, UInt8(ascii: "]"): depth -= 1
        case .openBrace where depth == 0: return offset
        case .closeBrace where depth == 0: return nil
        case .newline where depth == 0 && keyword == "var": return nil
        default: break
        }
    }
    return nil
}
