/// Writes JSON texts without a serializer, so that their bytes are the protocol's.
package enum JSONText {
    /// Returns a text as a JSON string that escapes only what it must.
    package static func quote(_ text: some StringProtocol) -> String {
        var output = "\""
        // Most texts need no escape, and are then copied as a whole.
        guard text.utf8.contains(where: isEscaped) else {
            output += text
            return output + "\""
        }
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"", "\\":
                output.unicodeScalars.append("\\")
                output.unicodeScalars.append(scalar)
            case "\0"..<" ": output += "\\u00" + (scalar.value < 16 ? "0" : "") + String(scalar.value, radix: 16)
            default: output.unicodeScalars.append(scalar)
            }
        }
        return output + "\""
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
}
