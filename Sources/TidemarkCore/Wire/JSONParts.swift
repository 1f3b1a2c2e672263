/// Splits JSON texts into their parts, each as the text that the sender wrote.
///
/// No number loses its spelling: 1 stays another text than 1.0.
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
        var members: [(name: String, value: String)] = []
        let isWhole = read(json) { (reader) throws(TidemarkError) in
            try reader.object(unchecked: true) { (reader, name) throws(TidemarkError) in
                let value = try reader.skip(unchecked: true)
                members.append((reader.text(in: name.range), reader.text(in: value)))
            }
        }
        return isWhole ? members : nil
    }

    /// Returns the members of an object in a text.
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

    /// Returns the value under names in nested objects, or nil if there is none.
    ///
    /// A name is the text between its quotes, with the escapes as they are. Of equal names the last one counts.
    package static func value(at path: [String], of json: [UInt8]) -> [UInt8]? {
        var found: Range<Int>?
        let isWhole = read(json) { (reader) throws(TidemarkError) in found = try reader.value(at: path[...]) }
        return isWhole ? found.map { Array(json[$0]) } : nil
    }

    /// Whether `body` reads all of a text, which has no white space between its values.
    private static func read(
        _ json: [UInt8],
        _ body: (inout JSONReader) throws(TidemarkError) -> Void
    ) -> Bool {
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

    /// Returns a part of the text.
    package func text(in range: Range<Int>) -> String { String(decoding: bytes[range], as: UTF8.self) }
}
