/// Finds secrets in bytes: texts of a form that occurs nowhere else.
///
/// It knows the forms in which a server sends them: as they are, percent-encoded or escaped around their
/// ASCII letters, and in Base64 at the beginning of a value.
package enum SecretFinder {
    /// The first letters of a canary.
    package static let canaryPrefix = "cnry"
    /// The letters of a canary, which are all ASCII.
    package static let canaryLength = 20
    private static let zoneNameLength = 28
    private static let tokenLength = 65
    private static let uuidLength = 36
    /// The Base64 of a canary with one byte after it.
    private static let encodedLength = 28

    /// Returns a canary with a number: a text that nobody writes by chance.
    package static func canary(_ number: UInt64) -> String {
        let digits = String(number & 0xFFFF_FFFF_FFFF_FFFF, radix: 16)
        return canaryPrefix + String(repeating: "0", count: canaryLength - canaryPrefix.count - digits.count) + digits
    }

    /// Returns all texts in some bytes that have the form of a canary, a UUID, a zone's name or a token.
    package static func candidates(in bytes: [UInt8]) -> Set<String> {
        var found: Set<String> = []
        bytes.withUnsafeBufferPointer { bytes in
            for index in bytes.indices {
                switch bytes[index] {
                case UInt8(ascii: "c") where has("cnry", at: index, in: bytes):
                    add(from: index, canaryLength, of: bytes, to: &found)
                case UInt8(ascii: "Y") where has("Y25y", at: index, in: bytes):
                    addEncoded(from: index, of: bytes, to: &found)
                case UInt8(ascii: "z") where has("z_", at: index, in: bytes):
                    add(from: index, zoneNameLength, of: bytes, to: &found)
                case UInt8(ascii: "t") where has("tm", at: index, in: bytes):
                    guard index + 3 < bytes.count, bytes[index + 3] == UInt8(ascii: "_") else { continue }
                    add(from: index, tokenLength, of: bytes, to: &found)
                case UInt8(ascii: "-") where isSecondPart(index, of: bytes):
                    add(from: index - 8, uuidLength, of: bytes, to: &found)
                default: continue
                }
            }
        }
        return found
    }

    private static func has(_ text: StaticString, at index: Int, in bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        guard index + text.utf8CodeUnitCount <= bytes.count else { return false }
        for offset in 0..<text.utf8CodeUnitCount where bytes[index + offset] != text.utf8Start[offset] { return false }
        return true
    }

    /// Whether the first hyphen of a UUID is here.
    private static func isSecondPart(_ index: Int, of bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        guard index >= 8, index - 8 + uuidLength <= bytes.count else { return false }
        return [5, 10, 15].allSatisfy { bytes[index + $0] == UInt8(ascii: "-") }
    }

    private static func add(
        from index: Int, _ length: Int, of bytes: UnsafeBufferPointer<UInt8>, to found: inout Set<String>
    ) {
        guard index + length <= bytes.count else { return }
        found.insert(String(decoding: bytes[index..<(index + length)], as: UTF8.self))
    }

    private static func addEncoded(from index: Int, of bytes: UnsafeBufferPointer<UInt8>, to found: inout Set<String>) {
        guard index + encodedLength <= bytes.count else { return }
        var bits: UInt32 = 0
        var decoded: [UInt8] = []
        for (place, byte) in bytes[index..<(index + encodedLength)].enumerated() {
            guard let value = digit(byte) else { return }
            bits = bits << 6 | value
            if place % 4 == 3 {
                decoded += [16, 8, 0].map { UInt8(truncatingIfNeeded: bits >> $0) }
                bits = 0
            }
        }
        found.insert(String(decoding: decoded.prefix(canaryLength), as: UTF8.self))
    }

    /// The value of a letter of Base64.
    private static func digit(_ byte: UInt8) -> UInt32? {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(byte) - 65
        case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(byte) - 97 + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(byte) - 48 + 52
        case UInt8(ascii: "+"): 62
        case UInt8(ascii: "/"): 63
        default: nil
        }
    }
}
