import Crypto

/// The sum of the hashes of all rows of a zone, modulo 2^128.
///
/// The sum does not depend on the order of the rows. A changed row updates it: subtract the hash of
/// the old row, add the hash of the new one. Zones with equal fingerprints hold the same rows,
/// unless somebody forged a collision. `Docs/PROTOCOL.md` defines the hash of a row.
public struct Fingerprint: Hashable, Sendable {
    /// The upper 64 bits.
    public var high: UInt64
    /// The lower 64 bits.
    public var low: UInt64

    /// Creates a fingerprint from its two halves.
    public init(high: UInt64 = 0, low: UInt64 = 0) {
        self.high = high
        self.low = low
    }

    /// Parses 32 hexadecimal digits; nil for any other text.
    public init?(hex: String) {
        let digits = Array(hex.utf8)
        guard digits.count == 32, hex.allSatisfy(\.isHexDigit),
            let high = UInt64(String(decoding: digits[..<16], as: UTF8.self), radix: 16),
            let low = UInt64(String(decoding: digits[16...], as: UTF8.self), radix: 16)
        else { return nil }
        self.init(high: high, low: low)
    }

    /// The fingerprint of no rows.
    public static let none = Fingerprint()
    /// The 32 lower-case hexadecimal digits that are sent and stored.
    public var hex: String { Self.digits(high) + Self.digits(low) }

    /// Returns the fingerprint of the rows of both operands.
    public static func + (left: Self, right: Self) -> Self {
        let (low, carries) = left.low.addingReportingOverflow(right.low)
        return Self(high: left.high &+ right.high &+ (carries ? 1 : 0), low: low)
    }

    /// Returns the fingerprint of the rows of `left` without the rows of `right`.
    public static func - (left: Self, right: Self) -> Self {
        let (low, borrows) = left.low.subtractingReportingOverflow(right.low)
        return Self(high: left.high &- right.high &- (borrows ? 1 : 0), low: low)
    }

    /// Adds the rows of another fingerprint.
    public static func += (left: inout Self, right: Self) { left = left + right }

    private static func digits(_ half: UInt64) -> String {
        let digits = String(half, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}

extension Fingerprint: CustomStringConvertible {
    /// The 32 hexadecimal digits.
    public var description: String { hex }
}

extension Fingerprint: Codable {
    /// Reads the hexadecimal digits.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let fingerprint = Fingerprint(hex: try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(
                in: container, debugDescription: "A fingerprint has 32 hexadecimal digits.")
        }
        self = fingerprint
    }

    /// Writes the hexadecimal digits.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(hex)
    }
}
