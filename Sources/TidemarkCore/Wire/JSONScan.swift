/// A scan of a JSON body before SQLite parses it.
///
/// It checks nesting and encoding, and finds escapes that SQLite's JSON functions do not read exactly.
package struct JSONScan {
    /// Whether a string has a `\u` escape, which ``DecodedValue`` decodes.
    package private(set) var hasUnicodeEscapes = false
    /// Whether there is white space between the values.
    package private(set) var hasWhiteSpace = false
    /// The length of the longest string in bytes; an escape counts as one.
    package private(set) var longestString = 0

    /// Scans a body.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` with `malformedRequest` if it nests too deep, is not
    ///   UTF-8, has a control character, or has a needless escape in a name.
    package init(_ body: [UInt8], limits: Limits) throws(TidemarkError) {
        var depth = 0
        var isInString = false
        var isEscaped = false
        // The first needless escape of the current string, which a name must not have.
        var escapeInName: UInt8?
        // The position of the current string, and its bytes that belong to escapes.
        var start = 0
        var escapeBytes = 0
        for (index, byte) in body.enumerated() {
            if byte < 0x20, isInString || !Self.whiteSpace.contains(byte) { throw Self.controlCharacter(byte) }
            if isInString {
                if isEscaped {
                    isEscaped = false
                    escapeBytes += 1
                    guard byte == UInt8(ascii: "u") else { continue }
                    hasUnicodeEscapes = true
                    escapeBytes += 4
                    escapeInName = escapeInName ?? Self.needlessEscape(body[index...].dropFirst().prefix(4))
                } else if byte == UInt8(ascii: "\\") {
                    isEscaped = true
                } else if byte == UInt8(ascii: "\"") {
                    isInString = false
                    longestString = max(longestString, index - start - 1 - escapeBytes)
                }
                continue
            }
            switch byte {
            case ...UInt8(ascii: " "): hasWhiteSpace = true
            case UInt8(ascii: "\""):
                isInString = true
                escapeInName = nil
                start = index
                escapeBytes = 0
            case UInt8(ascii: ":"): if let escapeInName { throw Self.escapedName(escapeInName) }
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                depth += 1
                guard depth <= limits.jsonDepthMax else { throw Self.tooDeep(limits) }
            case UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
            default: break
            }
        }
        guard Self.isUTF8(body) else {
            throw TidemarkError(
                .malformedRequest,
                "The body is not UTF-8.",
                fix: #"Send UTF-8; send other bytes as {"$blob":"<base64>"}."#
            )
        }
    }

    /// Whether a body is UTF-8; it validates pieces, because validation makes a copy.
    private static func isUTF8(_ body: [UInt8]) -> Bool {
        var rest = body[...]
        while !rest.isEmpty {
            var piece = rest.prefix(1 << 16)
            if piece.count < rest.count {
                // At most the last three bytes belong to a character that continues in the next piece.
                let whole = piece.dropLast(3)
                piece = rest[..<(rest[whole.endIndex...].firstIndex { $0 & 0xC0 != 0x80 } ?? rest.endIndex)]
            }
            guard String(validating: piece, as: UTF8.self) != nil else { return false }
            rest = rest[piece.endIndex...]
        }
        return true
    }

    /// Tab, line feed and carriage return, which JSON allows between values.
    private static let whiteSpace: [UInt8] = [0x09, 0x0A, 0x0D]

    /// Returns the character of an escape for NUL, a letter, a digit, `$` or `_`.
    ///
    /// SQLite compares names by spelling, so it would not find `"n\u0061me"` as `name`.
    private static func needlessEscape(_ digits: ArraySlice<UInt8>) -> UInt8? {
        guard let code = UInt8(String(decoding: digits, as: UTF8.self), radix: 16) else { return nil }
        switch code {
        case 0, UInt8(ascii: "$"), UInt8(ascii: "_"), UInt8(ascii: "0")...UInt8(ascii: "9"),
            UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"):
            return code
        default: return nil
        }
    }

    private static func escapedName(_ code: UInt8) -> TidemarkError {
        guard code > 0 else { return controlCharacter(code) }
        return TidemarkError(
            .malformedRequest,
            "A name spells a letter, a digit, $ or _ as an escape.",
            fix: "Write such characters as they are; only others may be escaped in names."
        )
    }

    private static func controlCharacter(_ byte: UInt8) -> TidemarkError {
        TidemarkError(
            .malformedRequest,
            "The body has a control character, byte \(byte), where JSON or a name can have none.",
            fix: "Escape control characters in strings; no name or key contains NUL."
        )
    }

    private static func tooDeep(_ limits: Limits) -> TidemarkError {
        TidemarkError(
            .malformedRequest,
            "The JSON nests deeper than \(limits.jsonDepthMax) levels.",
            fix: "A request needs six levels; see PROTOCOL.md."
        )
    }
}
