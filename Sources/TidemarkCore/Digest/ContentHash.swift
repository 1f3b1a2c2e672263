/// The hash that identifies a change set's content.
package enum ContentHash {
    /// Returns the SHA-256 of a text in lower-case hexadecimal.
    package static func of(_ text: String) -> String { of([text]) }

    /// Returns the SHA-256 of a change set's text without white space between the values.
    package static func of(_ set: ChangeSet, in reader: JSONReader) -> String {
        var hash = RunningHash()
        if set.hasWhiteSpace {
            hash.take(set.text(in: reader))
        } else {
            hash.take(UnsafeRawBufferPointer(UnsafeBufferPointer(rebasing: reader.bytes[set.range])))
        }
        return hash.text
    }

    /// Returns the SHA-256 of a text in pieces, which may be large.
    package static func of(_ pieces: [String]) -> String {
        var hash = RunningHash()
        for var piece in pieces { piece.withUTF8 { hash.take(UnsafeRawBufferPointer($0)) } }
        return hash.text
    }
}
