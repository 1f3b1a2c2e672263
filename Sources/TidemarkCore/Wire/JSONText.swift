/// Writes JSON texts without a serializer, so that their bytes are the protocol's.
package enum JSONText {
    /// Returns a text as a JSON string that escapes only what it must.
    package static func quote(_ text: some StringProtocol) -> String {
        // Most texts need no escape.
        guard text.utf8.contains(where: isEscaped) else { return "\"\(text)\"" }
        var output = [UInt8(ascii: "\"")]
        for byte in text.utf8 { append(escaped: byte, to: &output) }
        output.append(UInt8(ascii: "\""))
        return String(decoding: output, as: UTF8.self)
    }

    private static func isEscaped(_ byte: UInt8) -> Bool {
        byte < UInt8(ascii: " ") || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\")
    }

    /// Returns a JSON object of members whose values are JSON.
    package static func object(_ members: [(name: String, value: String)]) -> String {
        var output = "{"
        for (index, member) in members.enumerated() {
            if index > 0 { output += "," }
            output += quote(member.name)
            output += ":"
            output += member.value
        }
        return output + "}"
    }

    package static func array(_ values: [String]) -> String { "[\(values.joined(separator: ","))]" }

    /// Returns the characters of a JSON string.
    package static func unquote(_ json: String) -> String {
        guard json.contains("\\") else { return String(json.dropFirst().dropLast()) }
        return Array(json.utf8).withUnsafeBufferPointer { bytes in
            var reader = JSONReader(validated: bytes)
            // A damaged text of the books stays as it is.
            do throws(TidemarkError) { return reader.text(of: try reader.string()) } catch { return json }
        }
    }

    package static func append(_ value: Int64, to output: inout [UInt8]) {
        guard value.magnitude > 9 || value < 0 else { return output.append(UInt8(ascii: "0") + UInt8(value)) }
        let start = output.count
        var rest = value.magnitude
        while rest > 0 {
            output.append(UInt8(ascii: "0") + UInt8(rest % 10))
            rest /= 10
        }
        if value < 0 { output.append(UInt8(ascii: "-")) }
        output[start...].reverse()
    }

    /// Appends a double: the shortest digits that round-trip, always with `.` or `e`.
    package static func append(_ value: Double, to output: inout [UInt8]) {
        if value.isInfinite {
            output += (value < 0 ? #"{"$real":"-Infinity"}"# : #"{"$real":"Infinity"}"#).utf8
        } else {
            output += value.description.utf8
        }
    }

    /// Appends text: a string, or base64 if it has NUL or is not UTF-8.
    package static func append(text: UnsafeBufferPointer<UInt8>, to output: inout [UInt8]) {
        // Most texts need no escape, and are then copied as a whole.
        var isPlain = true
        var isASCII = true
        for byte in text {
            if isEscaped(byte) { isPlain = false }
            if byte >= 0x80 { isASCII = false }
        }
        guard isASCII || String(validating: text, as: UTF8.self) != nil, isPlain || !text.contains(0) else {
            return append(tag: "$text", text, to: &output)
        }
        output.append(UInt8(ascii: "\""))
        if isPlain { output += text } else { for byte in text { append(escaped: byte, to: &output) } }
        output.append(UInt8(ascii: "\""))
    }

    private static func append(escaped byte: UInt8, to output: inout [UInt8]) {
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"):
            output.append(UInt8(ascii: "\\"))
            output.append(byte)
        case ..<0x20:
            output += "\\u00".utf8
            output.append(hexDigits[Int(byte >> 4)])
            output.append(hexDigits[Int(byte & 15)])
        default: output.append(byte)
        }
    }

    /// Appends an object with one member, whose value is bytes in base64.
    package static func append(tag: String, _ bytes: UnsafeBufferPointer<UInt8>, to output: inout [UInt8]) {
        output += "{\"\(tag)\":\"".utf8
        Base64.append(bytes, to: &output)
        output += "\"}".utf8
    }

    private static let hexDigits = Array("0123456789abcdef".utf8)
}

/// Splits JSON texts into their parts as the sender wrote them: 1 stays another text than 1.0.
package enum JSONParts {
    /// Returns a text without the white space between its values.
    package static func compact(_ json: some Sequence<UInt8>) -> [UInt8] {
        var output: [UInt8] = []
        var isInString = false
        var isEscaped = false
        for byte in json {
            if isInString {
                if isEscaped {
                    isEscaped = false
                } else if byte == UInt8(ascii: "\\") {
                    isEscaped = true
                } else if byte == UInt8(ascii: "\"") {
                    isInString = false
                }
            } else if byte == UInt8(ascii: "\"") {
                isInString = true
            } else if byte <= UInt8(ascii: " ") {
                continue
            }
            output.append(byte)
        }
        return output
    }

    /// Returns an object's members in order, names with their escapes; nil for another text or one with white space.
    package static func members(of json: [UInt8]) -> [(name: String, value: String)]? {
        var members: [(name: String, value: String)] = []
        let isWhole = read(json) { (reader) throws(TidemarkError) in
            try reader.object(unchecked: true) { (reader, name) throws(TidemarkError) in
                let value = try reader.skip(unchecked: true)
                members.append((reader.text(in: name.range), reader.text(in: value)))
            }
        }
        return isWhole ? members : nil
    }

    package static func members(of json: String) -> [(name: String, value: String)]? { members(of: Array(json.utf8)) }

    /// Returns the elements of an array in their order, or nil for another text or one with white space.
    package static func elements(of json: String) -> [String]? {
        var elements: [String] = []
        let isWhole = read(Array(json.utf8)) { (reader) throws(TidemarkError) in
            try reader.array { (reader) throws(TidemarkError) in
                elements.append(reader.text(in: try reader.skip(unchecked: true)))
            }
        }
        return isWhole ? elements : nil
    }

    /// Returns the value under names in nested objects, of equal names the last one; nil if there is none.
    package static func value(at path: [String], of json: [UInt8]) -> [UInt8]? {
        var found: Range<Int>?
        let isWhole = read(json) { (reader) throws(TidemarkError) in found = try reader.value(at: path[...]) }
        return isWhole ? found.map { Array(json[$0]) } : nil
    }

    /// Whether `body` reads all of a text, which has no white space between its values.
    private static func read(_ json: [UInt8], _ body: (inout JSONReader) throws(TidemarkError) -> Void) -> Bool {
        json.withUnsafeBufferPointer { bytes in
            do throws(TidemarkError) {
                var reader = try JSONReader(bytes)
                try body(&reader)
                try reader.finish()
                return reader.whiteSpace == 0
            } catch { return false }
        }
    }
}

extension JSONReader {
    /// Reads any value, and returns the position of the one under names in nested objects, nil if there is none.
    fileprivate mutating func value(at path: ArraySlice<String>) throws(TidemarkError) -> Range<Int>? {
        guard let wanted = path.first else { return try skip(unchecked: true) }
        var found: Range<Int>?
        guard try kind() == .object else {
            try skip(unchecked: true)
            return nil
        }
        try object(unchecked: true) { (reader, name) throws(TidemarkError) in
            if reader.bytes[name.range].elementsEqual(wanted.utf8) {
                found = try reader.value(at: path.dropFirst())
            } else {
                try reader.skip(unchecked: true)
            }
        }
        return found
    }

    package func text(in range: Range<Int>) -> String { String(decoding: bytes[range], as: UTF8.self) }
}

/// The member names of the protocol's JSON, which `Docs/PROTOCOL.md` explains.
package enum WireName {
    /// The members of a change set that are not tables.
    package static let changeSetMembers: Set<String> = [
        "types", "id", "after", "revision", "conflict", "reasons", "time", "overruled",
    ]
    /// The members of a table's part of a change set.
    package static let tableMembers: Set<String> = ["create", "update", "delete", "attributes"]
    /// The members of a record's attributes that are not columns.
    package static let recordMembers: Set<String> = ["revision", "__oldId__"]
    /// The character before a table's or column's name that the protocol would otherwise read as its own.
    package static let escape: Character = "="

    package static func member(table name: String) -> String { member(name, changeSetMembers) }
    /// Returns the member that stands for a column in a record's attributes, and in images of records.
    package static func member(column name: String) -> String { member(name, recordMembers) }

    package static func name(of member: String) -> String {
        member.first == escape ? String(member.dropFirst()) : member
    }

    private static func member(_ name: String, _ reserved: Set<String>) -> String {
        reserved.contains(name) || name.first == escape ? "\(escape)\(name)" : name
    }
}
