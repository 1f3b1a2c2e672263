package import TidemarkCore

/// The names of zones that are made while the server runs: `z_` and 128 random bits.
///
/// A name tells nothing and cannot be guessed; people see a zone's title. The operator may choose names
/// for public zones.
package enum ZoneName {
    private static let prefix = "z_"
    /// Lower-case base32 (RFC 4648), which a file system that ignores case keeps apart.
    private static let alphabet = Array("abcdefghijklmnopqrstuvwxyz234567".utf8)
    private static let length = 26
    private static let chosenLengthMax = 63

    package static func make(using generator: inout some RandomNumberGenerator) -> String {
        // The alphabet has 32 letters, so five bits choose one without a bias.
        let letters = (0..<length).map { _ in alphabet[Int(generator.next() & 31)] }
        return prefix + String(decoding: letters, as: UTF8.self)
    }

    /// Whether an operator may choose the name for a zone with a file: safe in a path, and none that the server makes.
    package static func isChosen(_ text: String) -> Bool {
        guard (1...chosenLengthMax).contains(text.utf8.count), let first = text.utf8.first else { return false }
        let letters = UInt8(ascii: "a")...UInt8(ascii: "z")
        let digits = UInt8(ascii: "0")...UInt8(ascii: "9")
        return letters.contains(first) && !text.hasPrefix(prefix)
            && text.utf8.allSatisfy {
                letters.contains($0) || digits.contains($0) || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_")
            }
    }

    /// The refusal to make a zone with a file of such a name.
    package static func unusable(_ name: String) -> TidemarkError {
        TidemarkError(
            .invalidArgument, "The zone \(name) cannot have a file of that name.",
            fix: "Choose lower-case letters, digits, - and _, at most \(chosenLengthMax), with a letter first; "
                + "not \(prefix) at the beginning.")
    }

    /// Refuses a name that nobody can address, or that only the server gives, by `invalidArgument`.
    ///
    /// Clients and proxies take `.` and `..` out of a path, so a request for such a zone would reach another one. `~`
    /// stands for a user's own zone.
    package static func requireChoosable(_ name: String) throws(TidemarkError) {
        let isTaken = [".", "..", "~", ""].contains(name) || name.hasPrefix(prefix) && !isValid(name)
        guard isTaken else { return }
        throw TidemarkError(
            .invalidArgument, "No zone can have the name \(name).",
            fix: "Choose another name; not \(prefix) at the beginning.")
    }

    /// Whether a text has the form of a name; such a text is safe in a path.
    package static func isValid(_ text: String) -> Bool {
        let letters = text.utf8.dropFirst(prefix.utf8.count)
        return text.hasPrefix(prefix) && letters.count == length && letters.allSatisfy { alphabet.contains($0) }
    }
}

extension TidemarkError {
    package static let unknownZone = TidemarkError(
        .unknownZone, "There is no zone of that name that you may read.",
        fix: "Check the zone's name, or ask one of its owners to invite you.")
}
