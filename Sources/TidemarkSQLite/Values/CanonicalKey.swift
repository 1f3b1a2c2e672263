import Foundation

/// A key's JSON, as somebody may have typed it, in canonical form.
///
/// - Parameter json: A value, or an array of values for a composite key.
/// - Throws: ``InvalidValue`` when a part is no value of a column.
func canonicalKey(json: String) throws(InvalidValue) -> [UInt8] {
    guard json.first == "[" else { return try DecodedValue(json: json).canonicalJSON }
    var output: [UInt8] = [UInt8(ascii: "[")]
    for (index, element) in try elements(of: json).enumerated() {
        if index > 0 { output.append(UInt8(ascii: ",")) }
        output += try DecodedValue(json: element).canonicalJSON
    }
    output.append(UInt8(ascii: "]"))
    return output
}

/// Splits a JSON array, known to be valid, into the JSON of its elements.
private func elements(of array: String) throws(InvalidValue) -> [String] {
    var elements: [String] = []
    var current = ""
    var (depth, isInString, isEscaped) = (0, false, false)
    for character in array.dropFirst().dropLast() {
        if isInString {
            current.append(character)
            if isEscaped {
                isEscaped = false
            } else if character == "\\" {
                isEscaped = true
            } else if character == "\"" {
                isInString = false
            }
            continue
        }
        switch character {
        case ",":
            if depth == 0 {
                elements.append(current)
                current = ""
                continue
            }
        case "{", "[": depth += 1
        case "}", "]": depth -= 1
        case "\"": isInString = true
        case " ", "\n", "\t", "\r", "\r\n": continue
        default: break
        }
        current.append(character)
    }
    if !current.isEmpty { elements.append(current) }
    guard elements.allSatisfy({ !$0.isEmpty }) else {
        throw InvalidValue(reason: "is not a JSON array of values")
    }
    return elements
}
