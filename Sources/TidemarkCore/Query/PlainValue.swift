/// Values as people write them in paths and queries: `7`, `DE`, `{"$blob":"AP8="}`.
package enum PlainValue {
    /// Returns the JSON of a text for a column.
    ///
    /// In a numeric column, and in one without a type, a text that looks like a number is one. A quoted text
    /// is text.
    package static func json(_ text: String, of column: SyncedTable.Column, isQuoted: Bool = false) -> String {
        if !isQuoted, text.hasPrefix(#"{"$"#) { return integer(text) ?? text }
        if !isQuoted, column.affinity != "TEXT", isNumber(text) { return text }
        return JSONText.quote(text)
    }

    /// Returns the digits of `{"$int":"9223372036854775807"}`; nil for another text.
    private static func integer(_ text: String) -> String? {
        let start = #"{"$int":""#
        guard text.hasPrefix(start), text.hasSuffix(#""}"#) else { return nil }
        return Int64(text.dropFirst(start.count).dropLast(2)).map(String.init)
    }

    /// Whether a text is a JSON number that a column can hold.
    static func isNumber(_ text: String) -> Bool {
        let bytes = Array(text.utf8)
        let digits = bytes.drop { $0 == UInt8(ascii: "-") }
        guard let first = digits.first, isDigit(first), bytes.count - digits.count <= 1 else { return false }
        if digits.allSatisfy(isDigit) { return (first != UInt8(ascii: "0") || digits.count == 1) && Int64(text) != nil }
        guard digits.count < 2 || first != UInt8(ascii: "0") || !isDigit(digits.dropFirst().first ?? 0),
            bytes.allSatisfy({ isDigit($0) || "-+.eE".utf8.contains($0) }), bytes.last.map(isDigit) == true,
            !text.contains(".e"), !text.contains(".E")
        else { return false }
        return Double(text)?.isFinite == true
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }
}
