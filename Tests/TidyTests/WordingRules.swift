import Foundation

/// Words and sentences that a stranger has to translate.
enum Wording {
    /// Phrases that hide who does what.
    ///
    /// They are spelled in halves here, so that a search for them finds the sentences to rewrite.
    static let banned = [
        "who" + "ever", "who" + "soever", "of wh" + "ich", "what " + "is", "what " + "was", "what " + "it is",
        "what " + "there is", "as " + "ever", "who " + "only",
    ]

    /// Participles that name nothing: a noun says what the value holds.
    static let participles = ["told", "asked", "given", "noted", "kept"]

    /// The words of a page's median sentence, at most.
    static let medianWordsMax = 18

    /// The words of nine sentences in ten of a page, at most.
    static let wordsMax = 32
}

/// Reports comments, names and texts of a Swift file that hold a banned phrase.
func bannedPhrases(_ path: String, _ text: SwiftText) -> [Finding] {
    let isRule = path.hasPrefix("Tests/TidyTests/")
    return (1...max(1, text.lineCount)).flatMap { number in
        let line = text.line(number, of: isRule ? text.comments : text.bytes)
        return bannedPhrases(path, line: line, number)
    }
}

/// Reports sentences of a page that hold a banned phrase; quoted code may.
func bannedPhrases(_ path: String, page text: String) -> [Finding] {
    prose(of: text).flatMap { bannedPhrases(path, line: $0.line.replacing(/`[^`]*`/, with: "code"), $0.number) }
}

private func bannedPhrases(_ path: String, line: String, _ number: Int) -> [Finding] {
    let bytes = Array(line.lowercased().utf8)
    return Wording.banned.filter { !offsets(of: $0, in: bytes).isEmpty }.map {
        Finding(path, number, "`\($0)`: name the actor, and say who does what")
    }
}

/// Reports declarations whose name is a participle without a noun.
func participleNames(_ path: String, _ text: SwiftText) -> [Finding] {
    Wording.participles.flatMap { name in
        offsets(of: name, in: text.code).compactMap { offset in
            guard isDeclared(at: offset, length: name.utf8.count, in: text.code) else { return nil }
            return Finding(path, text.line(at: offset), "`\(name)` names nothing: say with a noun what it holds")
        }
    }
}

/// Whether the name at an offset is declared there: after `let`, `var`, `func`, `case`, or as a parameter.
private func isDeclared(at offset: Int, length: Int, in code: [UInt8]) -> Bool {
    let before = String(decoding: code[max(0, offset - 40)..<offset], as: UTF8.self)
    if before.contains(/\b(?:let|var|func|case)\s+$/) { return true }
    let after = String(decoding: code[(offset + length)..<min(code.count, offset + length + 2)], as: UTF8.self)
    return before.contains(/[(,]\s*(?:\w+\s+)?$/) && after.hasPrefix(":") && isParameter(before: offset, in: code)
}

/// Whether the parentheses around an offset are those of a function's declaration.
private func isParameter(before offset: Int, in code: [UInt8]) -> Bool {
    var depth = 0
    for index in stride(from: offset - 1, through: 0, by: -1) {
        if code[index] == .closeParenthesis { depth += 1 }
        guard code[index] == .openParenthesis else { continue }
        if depth == 0 {
            let head = String(decoding: code[max(0, index - 80)..<index], as: UTF8.self)
            return head.contains(/\b(?:func\s+\w+|init[?]?)(?:<[^<>]*>)?$/)
        }
        depth -= 1
    }
    return false
}

/// Reports a page whose sentences are too long to be understood at first read.
func longSentences(_ path: String, _ text: String) -> [Finding] {
    let lengths = sentenceLengths(in: text).sorted()
    guard lengths.count >= 5 else { return [] }
    let median = lengths[lengths.count / 2]
    let ninth = lengths[lengths.count * 9 / 10]
    var findings: [Finding] = []
    if median > Wording.medianWordsMax {
        findings.append(Finding(path, 1, "the median sentence has \(median) words, at most \(Wording.medianWordsMax)"))
    }
    if ninth > Wording.wordsMax {
        findings.append(Finding(path, 1, "one sentence in ten has \(ninth) words or more, at most \(Wording.wordsMax)"))
    }
    return findings
}

/// The words of each sentence of a page: no headings, no tables, no code.
func sentenceLengths(in text: String) -> [Int] {
    var paragraphs = [""]
    for (line, _) in prose(of: text) {
        let line = line.trimmingCharacters(in: .whitespaces)
        if line.hasPrefix("#") || line.hasPrefix("|") || line.isEmpty {
            paragraphs.append("")
        } else {
            if line.contains(/^(?:[-*]|\d+\.)\s/) { paragraphs.append("") }
            paragraphs[paragraphs.count - 1] += line + " "
        }
    }
    return paragraphs.flatMap { paragraph in
        let words = paragraph.replacing(/\[([^\]]*)\]\([^)]*\)/, with: \.output.1).replacing(/`[^`]*`/, with: "code")
        return words.split(separator: /[.!?:][")*]*\s+/).map { $0.matches(of: /[A-Za-z0-9][A-Za-z0-9'-]*/).count }
    }.filter { $0 > 1 }
}
