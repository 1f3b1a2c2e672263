package import TidemarkCore

/// One pass over the bytes of a JSON body, before SQLite parses it: depth, encoding, and whether strings
/// contain escapes that SQLite's JSON functions do not read exactly.
package struct JSONScan {
    /// Whether a string has a `\u` escape: such strings are decoded by Foundation.
    package private(set) var hasUnicodeEscapes = false

    /// Looks through a body.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` with `malformedRequest` when it nests too deep or is not UTF-8.
    package init(_ body: [UInt8], limits: Limits) throws(TidemarkError) {
        var (depth, isInString, isEscaped) = (0, false, false)
        for byte in body {
            if isInString {
                if isEscaped {
                    isEscaped = false
                    if byte == UInt8(ascii: "u") { hasUnicodeEscapes = true }
                } else if byte == UInt8(ascii: "\\") {
                    isEscaped = true
                } else if byte == UInt8(ascii: "\"") {
                    isInString = false
                }
                continue
            }
            switch byte {
            case UInt8(ascii: "\""): isInString = true
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                depth += 1
                guard depth <= limits.jsonDepthMax else {
                    throw TidemarkError(
                        .malformedRequest,
                        "The JSON nests deeper than \(limits.jsonDepthMax) levels.",
                        fix: "A request needs six levels; see PROTOCOL.md.")
                }
            case UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
            default: break
            }
        }
        guard String(validating: body, as: UTF8.self) != nil else {
            throw TidemarkError(
                .malformedRequest, "The body is not UTF-8.",
                fix: #"Send UTF-8; bytes that are no text travel as {"$blob":"<base64>"}."#)
        }
    }
}
