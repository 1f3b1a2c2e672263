/// Finds the byte at which a text stops being JSON, for people who write it by hand.
package enum JSONFault {
    /// Returns the offset of the first byte that cannot stand where it stands; nil for JSON.
    package static func offset(in text: [UInt8]) -> Int? {
        var reader = Reader(text: text)
        let isValue = reader.value(depth: 0)
        reader.skipWhiteSpace()
        return isValue && reader.place == text.count ? nil : reader.place
    }

    /// Returns the cause for the sentence "The body cannot be read: …".
    package static func cause(in text: [UInt8]) -> String {
        guard let offset = offset(in: text) else { return "it is not a JSON object." }
        guard !text.isEmpty else { return "it is empty." }
        guard offset < text.count else { return "it ends after byte \(text.count), before its JSON does." }
        return "it is no JSON from byte \(offset + 1) on."
    }

    private struct Reader {
        let text: [UInt8]
        private(set) var place = 0

        init(text: [UInt8]) { self.text = text }

        private static let depthMax = 512

        private var byte: UInt8? { place < text.count ? text[place] : nil }

        mutating func skipWhiteSpace() {
            while let byte, [0x20, 0x09, 0x0A, 0x0D].contains(byte) { place += 1 }
        }

        /// Reads a value with the white space before it.
        mutating func value(depth: Int) -> Bool {
            skipWhiteSpace()
            switch byte ?? 0 {
            case UInt8(ascii: "{"), UInt8(ascii: "["): return depth < Self.depthMax && list(depth: depth)
            case UInt8(ascii: "\""): return string()
            case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return number()
            default: return ["true", "false", "null"].contains { word($0) }
            }
        }

        private mutating func list(depth: Int) -> Bool {
            let isObject = take("{")
            if !isObject { place += 1 }
            let end: Unicode.Scalar = isObject ? "}" : "]"
            skipWhiteSpace()
            if take(end) { return true }
            repeat {
                if isObject {
                    skipWhiteSpace()
                    guard string() else { return false }
                    skipWhiteSpace()
                    guard take(":") else { return false }
                }
                guard value(depth: depth + 1) else { return false }
                skipWhiteSpace()
            } while take(",")
            return take(end)
        }

        private mutating func string() -> Bool {
            guard take("\"") else { return false }
            while let byte, byte >= 0x20 {
                if take("\"") { return true }
                if take("\\"), !escape() { return false }
                if byte != UInt8(ascii: "\\") { place += 1 }
            }
            return false
        }

        private mutating func escape() -> Bool {
            guard let byte, "\"\\/bfnrtu".utf8.contains(byte) else { return false }
            place += 1
            guard byte == UInt8(ascii: "u") else { return true }
            for _ in 0..<4 {
                guard let digit = self.byte, Character(Unicode.Scalar(digit)).isHexDigit else { return false }
                place += 1
            }
            return true
        }

        private mutating func number() -> Bool {
            _ = take("-")
            if !take("0"), !digits() { return false }
            if take("."), !digits() { return false }
            guard take("e") || take("E") else { return true }
            if !take("+") { _ = take("-") }
            return digits()
        }

        private mutating func digits() -> Bool {
            let start = place
            while let byte, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) { place += 1 }
            return place > start
        }

        private mutating func word(_ word: String) -> Bool {
            guard text[place...].starts(with: word.utf8) else { return false }
            place += word.utf8.count
            return true
        }

        private mutating func take(_ character: Unicode.Scalar) -> Bool {
            guard byte == UInt8(ascii: character) else { return false }
            place += 1
            return true
        }
    }
}
