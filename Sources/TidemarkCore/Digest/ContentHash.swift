import Crypto

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

/// Computes the chain of a history to which a change set is added piece by piece.
package struct Chain {
    private var hash = RunningHash()

    /// Begins after a history with the chain `previous`.
    package init(after previous: String, revision: Int64) { take("\(previous)\n\(revision)\n") }

    /// Hashes the next piece of the text.
    package mutating func take(_ piece: String) { hash.take(Array(piece.utf8)) }

    /// Returns the chain after the last piece.
    package func text(device: String?) -> String {
        // JSON has no line feed and the device comes last, so each history has a unique text.
        var end = self
        end.take("\n\(device ?? "")")
        return end.hash.text
    }
}

/// A SHA-256 hash of bytes in several pieces.
package struct RunningHash {
    private var hash = SHA256()

    /// Creates the hash of no bytes.
    package init() {}

    /// Adds the next piece.
    package mutating func take(_ bytes: [UInt8]) { hash.update(data: bytes) }

    /// Adds the next piece without a copy.
    package mutating func take(_ bytes: UnsafeRawBufferPointer) { hash.update(bufferPointer: bytes) }

    /// The hash of all pieces so far, lower-case hexadecimal.
    package var text: String { Self.hex(hash.finalize()) }

    /// Returns lower-case hexadecimal digits.
    package static func hex(_ bytes: some Sequence<UInt8>) -> String {
        let digits = Array("0123456789abcdef".utf8)
        return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }
}
