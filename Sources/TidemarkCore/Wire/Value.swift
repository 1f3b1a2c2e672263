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

    /// Creates a text from its bytes.
    package init(text bytes: UnsafeBufferPointer<UInt8>) {
        if !bytes.contains(0), let text = String(validating: bytes, as: UTF8.self) {
            self = .text(text)
        } else {
            self = .rawText(Array(bytes))
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
        appendJSON(to: &output)
        return output
    }

    /// Appends the canonical JSON.
    package func appendJSON(to output: inout [UInt8]) {
        switch self {
        case .null: output += "null".utf8
        case .integer(let value): JSONText.append(value, to: &output)
        case .real(let value): JSONText.append(value, to: &output)
        case .text(var text): text.withUTF8 { JSONText.append(text: $0, to: &output) }
        case .rawText(let bytes): bytes.withUnsafeBufferPointer { JSONText.append(tag: "$text", $0, to: &output) }
        case .blob(let bytes): bytes.withUnsafeBufferPointer { JSONText.append(tag: "$blob", $0, to: &output) }
        }
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

extension Value {
    /// Returns the values of a key in canonical JSON: one, or those of a composite key.
    package static func parts(ofKey key: String) -> [Value] {
        if let id = Int64(key) { return [.integer(id)] }
        // A canonical key is what this product has written, so it has no faults.
        do throws(TidemarkError) {
            return try Array(key.utf8).withUnsafeBufferPointer { (bytes) throws(TidemarkError) -> [Value] in
                var reader = try JSONReader(bytes)
                var cells: [Cell] = []
                if try reader.kind() == .array {
                    try reader.array { (reader) throws(TidemarkError) in cells.append(try reader.cell()) }
                } else {
                    cells.append(try reader.cell())
                }
                return cells.map { cell in
                    do throws(InvalidValue) { return try reader.value(of: cell) } catch { return .null }
                }
            }
        } catch { return [] }
    }

    /// Returns the canonical JSON of a key of several values.
    package static func key(ofParts parts: [Value]) -> String {
        var output: [UInt8] = []
        if parts.count > 1 { output.append(UInt8(ascii: "[")) }
        for (index, part) in parts.enumerated() {
            if index > 0 { output.append(UInt8(ascii: ",")) }
            part.appendJSON(to: &output)
        }
        if parts.count > 1 { output.append(UInt8(ascii: "]")) }
        return String(decoding: output, as: UTF8.self)
    }
}

extension Value {
    /// The number, if it is an integer.
    package var integer: Int64? { if case .integer(let number) = self { number } else { nil } }

    /// The text, if it is one without NUL.
    package var text: String? { if case .text(let text) = self { text } else { nil } }
}
