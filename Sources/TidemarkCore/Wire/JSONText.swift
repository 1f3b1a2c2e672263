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

    /// Returns a JSON array of values in JSON.
    package static func array(_ values: [String]) -> String { "[\(values.joined(separator: ","))]" }

    /// Returns the text of a canonical JSON string.
    package static func unquote(_ json: String) -> String {
        guard json.contains("\\") else { return String(json.dropFirst().dropLast()) }
        var output = String.UnicodeScalarView()
        var rest = Substring(json.dropFirst().dropLast()).unicodeScalars
        while let scalar = rest.popFirst() {
            guard scalar == "\\", let escape = rest.popFirst() else {
                output.append(scalar)
                continue
            }
            guard escape == "u" else {
                output.append(escape)
                continue
            }
            let digits = String(Substring(rest.prefix(4)))
            rest = rest.dropFirst(4)
            if let code = UInt32(digits, radix: 16), let control = Unicode.Scalar(code) { output.append(control) }
        }
        return String(output)
    }

    // MARK: Canonical values

    /// Appends the digits of an integer.
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
