import Crypto

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
