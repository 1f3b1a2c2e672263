import Crypto

/// The SHA-256 of bytes that come in pieces.
package struct RunningHash {
    private var hash = SHA256()

    package init() {}

    /// Takes the next piece.
    package mutating func take(_ bytes: [UInt8]) { hash.update(data: bytes) }

    /// Takes the next piece from where it lies.
    package mutating func take(_ bytes: UnsafeRawBufferPointer) { hash.update(bufferPointer: bytes) }

    /// The hash of all pieces so far, lower-case hexadecimal.
    package var text: String { Digest.hex(hash.finalize()) }
}
