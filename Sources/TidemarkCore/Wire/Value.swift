/// A value of a column, as SQLite stores it, and as the wire's JSON has it.
///
/// | value | JSON |
/// | --- | --- |
/// | NULL | `null` |
/// | INTEGER | digits: `42`; `true` and `false` are read as 1 and 0 |
/// | REAL | the shortest digits that round-trip, always with `.` or `e`: `42.0` |
/// | infinite REAL | `{"$real":"Infinity"}` or `{"$real":"-Infinity"}` |
/// | TEXT | a string; only `"`, `\` and control characters are escaped |
/// | TEXT with NUL or invalid UTF-8 | `{"$text":"<base64 of its bytes>"}` |
/// | BLOB | `{"$blob":"<base64>"}` |
package enum Value: Hashable, Sendable {
    case null
    case integer(Int64)
    case real(Double)
    /// Text without NUL.
    case text(String)
    /// Text with NUL, or whose bytes are not UTF-8.
    case rawText([UInt8])
    case blob([UInt8])

    /// Creates a text from its bytes.
    package init(text bytes: [UInt8]) {
        if !bytes.contains(0), let text = String(validating: bytes, as: UTF8.self) {
            self = .text(text)
        } else {
            self = .rawText(bytes)
        }
    }

    /// Reads one JSON value.
    ///
    /// - Throws: ``InvalidValue``.
    package init(json: String) throws(InvalidValue) {
        self = try Array(json.utf8).withUnsafeBufferPointer { (bytes) throws(InvalidValue) in try Value(json: bytes) }
    }

    /// Reads the JSON value that is a text.
    ///
    /// - Throws: ``InvalidValue``.
    package init(json bytes: UnsafeBufferPointer<UInt8>) throws(InvalidValue) {
        var reader: JSONReader
        let cell: Cell
        do throws(TidemarkError) {
            reader = try JSONReader(bytes)
            cell = try reader.cell()
            try reader.finish()
        } catch { throw InvalidValue(reason: "is no JSON value") }
        self = try reader.value(of: cell)
    }

    /// The canonical JSON: equal texts mean equal types and values.
    package var canonicalJSON: [UInt8] {
        var output: [UInt8] = []
        switch self {
        case .null: output += "null".utf8
        case .integer(let value): output += String(value).utf8
        case .real(let value): JSONText.append(value, to: &output)
        case .text(var text): text.withUTF8 { JSONText.append(text: $0, to: &output) }
        case .rawText(let bytes): bytes.withUnsafeBufferPointer { JSONText.append(tag: "$text", $0, to: &output) }
        case .blob(let bytes): bytes.withUnsafeBufferPointer { JSONText.append(tag: "$blob", $0, to: &output) }
        }
        return output
    }

    /// The tagged form of text, which is unambiguous; the canonical JSON of other values.
    package var taggedText: [UInt8] {
        var output: [UInt8] = []
        switch self {
        case .text(var text): text.withUTF8 { JSONText.append(tag: "$text", $0, to: &output) }
        case .null, .integer, .real, .rawText, .blob: return canonicalJSON
        }
        return output
    }
}

/// The reason why no column can hold a JSON value.
package struct InvalidValue: Error, Equatable {
    /// The reason, as words that follow a column's name.
    package let reason: String

    /// Creates a reason.
    package init(reason: String) { self.reason = reason }
}
