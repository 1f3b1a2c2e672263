import Foundation

/// Converts a key's JSON to canonical form.
///
/// The key is a value, or an array of values if it is composite.
func canonicalKey(json: String) throws(InvalidValue) -> [UInt8] {
    guard json.utf8.first == UInt8(ascii: "[") else { return try DecodedValue(json: json).canonicalJSON }
    var output: [UInt8] = [UInt8(ascii: "[")]
    for (index, element) in try elements(of: json).enumerated() {
        if index > 0 { output.append(UInt8(ascii: ",")) }
        output += try DecodedValue(json: element).canonicalJSON
    }
    output.append(UInt8(ascii: "]"))
    return output
}

/// Whether a text is the canonical JSON of a key.
package func isCanonicalKey(json: String) -> Bool {
    do throws(InvalidValue) { return try canonicalKey(json: json).elementsEqual(json.utf8) } catch { return false }
}

/// Splits a valid JSON array into the JSON of its elements.
///
/// It reads bytes, because a quote and a combining accent form one `Character`.
private func elements(of array: String) throws(InvalidValue) -> [String] {
    var elements: [[UInt8]] = []
    var current: [UInt8] = []
    var depth = 0
    var isInString = false
    var isEscaped = false
    for byte in array.utf8.dropFirst().dropLast() {
        if isInString {
            current.append(byte)
            if isEscaped {
                isEscaped = false
            } else if byte == UInt8(ascii: "\\") {
                isEscaped = true
            } else if byte == UInt8(ascii: "\"") {
                isInString = false
            }
            continue
        }
        switch byte {
        case UInt8(ascii: ","):
            if depth == 0 {
                elements.append(current)
                current = []
                continue
            }
        case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
        case UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
        case UInt8(ascii: "\""): isInString = true
        case UInt8(ascii: " "), UInt8(ascii: "\n"), UInt8(ascii: "\t"), UInt8(ascii: "\r"): continue
        default: break
        }
        current.append(byte)
    }
    if !current.isEmpty { elements.append(current) }
    guard elements.allSatisfy({ !$0.isEmpty }) else { throw InvalidValue(reason: "is not a JSON array of values") }
    return elements.map { String(decoding: $0, as: UTF8.self) }
}
