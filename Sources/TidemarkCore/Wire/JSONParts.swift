/// Splits JSON texts into their parts, each as the text that the sender wrote.
///
/// No number loses its spelling: 1 stays another text than 1.0. The functions do not validate the parts.
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

    /// Returns the members of an object in their order, or nil for another text or one with white space.
    ///
    /// A name is the text between its quotes, with the escapes as they are.
    package static func members(of json: [UInt8]) -> [(name: String, value: String)]? {
        json.withUnsafeBufferPointer { bytes in
            let walk = JSONWalk(bytes)
            guard walk.isObject(0) else { return nil }
            var members: [(name: String, value: String)] = []
            let whole = walk.members(of: 0) { name, start in
                let range = walk.value(at: start)
                if let range { members.append((walk.text(name), String(decoding: bytes[range], as: UTF8.self))) }
                return range
            }
            return whole?.upperBound == bytes.count ? members : nil
        }
    }

    /// Returns the members of an object in a text.
    package static func members(of json: String) -> [(name: String, value: String)]? { members(of: Array(json.utf8)) }

    /// Returns the elements of an array in their order, or nil for another text or one with white space.
    package static func elements(of json: String) -> [String]? {
        Array(json.utf8).withUnsafeBufferPointer { bytes in
            let walk = JSONWalk(bytes)
            guard walk.isArray(0) else { return nil }
            var elements: [String] = []
            let whole = walk.elements(of: 0) { start in
                let range = walk.value(at: start)
                if let range { elements.append(String(decoding: bytes[range], as: UTF8.self)) }
                return range
            }
            return whole?.upperBound == bytes.count ? elements : nil
        }
    }

    /// Returns the value under names in nested objects, or nil if there is none.
    ///
    /// A name is the text between its quotes, with the escapes as they are. Of equal names the last one counts.
    package static func value(at path: [String], of json: [UInt8]) -> [UInt8]? {
        json.withUnsafeBufferPointer { bytes in
            let walk = JSONWalk(bytes)
            var place = 0
            var found = 0..<bytes.count
            for name in path {
                guard walk.isObject(place) else { return nil }
                let wanted = Array(name.utf8)
                var next: Range<Int>?
                _ = walk.members(of: place) { label, start in
                    let range = walk.value(at: start)
                    let text = bytes[label].dropFirst().dropLast()
                    if text.count == wanted.count, text.elementsEqual(wanted) { next = range }
                    return range
                }
                guard let next else { return nil }
                place = next.lowerBound
                found = next
            }
            return Array(bytes[found])
        }
    }
}
