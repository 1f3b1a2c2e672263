import Foundation

/// A code of a promise, a use, an invariant or a failure case, and where it stands.
struct Code: Equatable {
    /// Such as `rule 3`, `A6` or `case 63`.
    let name: String

    /// The path of the test or page, relative to the root of the repository.
    let path: String

    /// The line, counted from 1.
    let line: Int
}

/// The codes that a label begins with, up to its first colon: `A7, rule 2: one record in conflict`.
///
/// A label without a colon, or with another word before it, has none.
func codes(of label: String) -> [String] {
    guard let colon = label.firstIndex(of: ":") else { return [] }
    var kind: String?
    var codes: [String] = []
    for word in label[..<colon].split(whereSeparator: { $0 == " " || $0 == "," }) {
        if let named = ["rule", "case"].first(where: { isWord(word, $0) }) {
            kind = named
        } else if let kind, word.allSatisfy(\.isWholeNumber) {
            codes.append("\(kind) \(word)")
        } else if word.wholeMatch(of: /[A-Z]\d+/) != nil {
            codes.append(String(word))
        } else if word != "and" {
            return []
        }
    }
    return codes
}

/// The codes that a file's tests carry in their names, and its suites in their comments.
func codes(in path: String, _ text: SwiftText) -> [Code] {
    let names = offsets(of: "func", in: text.code).flatMap { offset in
        codes(of: quotedName(after: offset, in: text)).map { name in
            Code(name: name, path: path, line: text.line(at: offset))
        }
    }
    let suites = offsets(of: "@Suite", in: text.code).flatMap { offset -> [Code] in
        let line = firstCommentLine(above: text.line(at: offset), in: text)
        let comment = text.line(line, of: text.comments).drop { $0 == " " || $0 == "/" }
        return codes(of: String(comment)).map { Code(name: $0, path: path, line: line) }
    }
    return names + suites
}

/// The codes that a page explains, in headings such as `### 3. Promise` and rows such as
/// `| A6 | use |`.
func explainedCodes(in path: String, _ page: String) -> [Code] {
    page.components(separatedBy: "\n").enumerated().compactMap { index, line -> Code? in
        let promise = line.firstMatch(of: /^### (\d+)\.\s/).map { "rule \($0.output.1)" }
        let row = line.firstMatch(of: /^\| ([A-Z]\d+|case \d+) \|/).map { String($0.output.1) }
        return (promise ?? row).map { Code(name: $0, path: path, line: index + 1) }
    }
}

/// Reports codes of tests that no page explains, and explained codes that no test carries.
func unprovenCodes(_ explained: [Code], in tests: [Code]) -> [Finding] {
    let known = Set(explained.map(\.name))
    let proved = Set(tests.map(\.name))
    let unknown = tests.filter { !known.contains($0.name) }.map {
        Finding($0.path, $0.line, "explain `\($0.name)` in Docs/Mission.md, or leave it out")
    }
    let unproved = explained.filter { !proved.contains($0.name) }.map {
        Finding($0.path, $0.line, "no test carries `\($0.name)`: begin a name with `\($0.name): `")
    }
    return unknown + unproved
}

/// Reports promises that are not numbered 1, 2, 3 and so on.
func misnumberedPromises(_ explained: [Code]) -> [Finding] {
    let promises = explained.filter { $0.name.hasPrefix("rule ") }
    return promises.enumerated().filter { $0.element.name != "rule \($0.offset + 1)" }.map {
        Finding($0.element.path, $0.element.line, "number this promise \($0.offset + 1)")
    }
}

/// Whether a word is another one in either number and letter case: `Rules` is `rule`.
private func isWord(_ word: Substring, _ singular: String) -> Bool {
    [singular, singular + "s"].contains(word.lowercased())
}

/// The name between backticks that follows `func`; empty for other functions.
private func quotedName(after offset: Int, in text: SwiftText) -> String {
    let rest = text.bytes[offset...].dropFirst(4).drop { $0 == .space || $0 == .newline }
    guard rest.first == backtick else { return "" }
    return String(decoding: rest.dropFirst().prefix { $0 != backtick }, as: UTF8.self)
}

/// The first line of the doc comment that ends above a line; that line itself if there is none.
private func firstCommentLine(above number: Int, in text: SwiftText) -> Int {
    var first = number
    while text.line(first - 1, of: text.comments).drop(while: { $0 == " " }).hasPrefix("///") { first -= 1 }
    return first
}

private let backtick = UInt8(ascii: "`")
