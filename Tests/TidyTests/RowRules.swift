/// The targets that read rows from files which may be damaged.
private let readers = ["Tidemark", "TidemarkSQL", "TidemarkEmbedded"].map { "Sources/\($0)/" }

/// Reports subscripts of GRDB's rows, which end the process when a value is NULL or of another type
/// than the code expects; a damaged page can hold any value.
///
/// Told by their looks: a string literal as a subscript, or a number on something called `row`.
func trappingReads(_ path: String, _ text: SwiftText) -> [Finding] {
    guard readers.contains(where: { path.hasPrefix($0) }) else { return [] }
    let named = offsets(of: "[\"", in: text.bytes).filter { offset in
        text.code[offset] == UInt8(ascii: "[") && offset > 0 && isEndOfExpression(text.code[offset - 1])
            && isColumn(text.bytes[(offset + 2)...])
    }
    let numbered = ["row[", "row?[", "$0[", "$1["].flatMap { offsets(of: $0, in: text.code) }.filter {
        isNumbered(text.code[$0...])
    }
    return (named + numbered).sorted().map { offset in
        Finding(
            path, text.line(at: offset),
            "a row's subscript ends the process on a damaged page; instead: `try row.value(...)`")
    }
}

/// Whether what begins here is a row by its name, with a number as the subscript.
private func isNumbered(_ code: ArraySlice<UInt8>) -> Bool {
    guard let open = code.firstIndex(of: UInt8(ascii: "[")), let close = code[open...].firstIndex(of: UInt8(ascii: "]"))
    else { return false }
    let isNumber = close > open + 1 && code[(open + 1)..<close].allSatisfy(isDigit)
    let isRow = code.first == UInt8(ascii: "r")
    return isNumber && (isRow || code[(close + 1)...].starts(with: " as ".utf8))
}

/// Whether a plain name follows, and nothing else before the bracket.
private func isColumn(_ bytes: ArraySlice<UInt8>) -> Bool {
    guard let end = bytes.firstIndex(of: UInt8(ascii: "\"")), end > bytes.startIndex else { return false }
    let name = bytes[..<end].allSatisfy { isEndOfExpression($0) || $0 == UInt8(ascii: "_") }
    return name && bytes[(end + 1)...].first == UInt8(ascii: "]")
}

private func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }

private func isEndOfExpression(_ byte: UInt8) -> Bool {
    let isLetter = (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20) || isDigit(byte)
    return isLetter || [UInt8(ascii: ")"), UInt8(ascii: "]"), UInt8(ascii: "?")].contains(byte)
}
