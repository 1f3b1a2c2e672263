/// The promises to users that this release keeps, each by the row that states it.
enum Mission {
    static let rows =
        ["A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "A10", "A11", "A12", "A14", "A15"] + [
            "B3", "B5", "B6", "C4", "D2", "E2", "E6", "F1", "F5",
        ]
}

/// Reports rows that no test names.
func unprovenRows(_ rows: [String], in tests: [SwiftText]) -> [Finding] {
    let named = Set(tests.flatMap { rowsNamed(by: $0, among: rows) })
    return rows.filter { !named.contains($0) }.map { row in
        Finding("Tests", 1, "no test names row \(row): say `// MISSION: \(row)` at its proof")
    }
}

/// The rows that a test file names: in a `MISSION:` comment, or in the name, the display name
/// or the comment of a test or suite.
func rowsNamed(by text: SwiftText, among rows: [String]) -> [String] {
    let tests = ["@Test", "@Suite"].flatMap { offsets(of: $0, in: text.code) }
    guard !tests.isEmpty else { return [] }
    let labels = tests.map { label(at: $0, in: text) } + missionComments(in: text)
    return rows.filter { row in labels.contains { !offsets(of: row, in: $0).isEmpty } }
}

/// The comment above a test and everything up to its body.
private func label(at offset: Int, in text: SwiftText) -> [UInt8] {
    var first = text.line(at: offset)
    while text.hasComment(first - 1) { first -= 1 }
    let above = (first..<text.line(at: offset)).map { text.line($0, of: text.comments) }
    let end = text.code[offset...].firstIndex(of: .openBrace) ?? text.code.endIndex
    return Array(above.joined(separator: "\n").utf8) + [.newline] + text.bytes[offset..<end]
}

private func missionComments(in text: SwiftText) -> [[UInt8]] {
    offsets(of: "MISSION:", in: text.comments).map { offset in
        Array(text.line(text.line(at: offset), of: text.comments).utf8)
    }
}
