/// The names of zones that are made while the server runs: `z_` and 128 random bits.
///
/// A name tells nothing and cannot be guessed; people see a zone's title.
package enum ZoneName {
    private static let prefix = "z_"
    /// Lower-case base32 (RFC 4648), which a file system that ignores case keeps apart.
    private static let alphabet = Array("abcdefghijklmnopqrstuvwxyz234567".utf8)
    private static let length = 26

    /// Makes a name.
    package static func make(using generator: inout some RandomNumberGenerator) -> String {
        // The alphabet has 32 letters, so five bits choose one without a bias.
        let letters = (0..<length).map { _ in alphabet[Int(generator.next() & 31)] }
        return prefix + String(decoding: letters, as: UTF8.self)
    }

    /// Whether a text has the form of a name; such a text is safe in a path.
    package static func isValid(_ text: String) -> Bool {
        let letters = text.utf8.dropFirst(prefix.utf8.count)
        return text.hasPrefix(prefix) && letters.count == length && letters.allSatisfy { alphabet.contains($0) }
    }
}
