import TidemarkCore

/// A secret with which a request proves who sends it: `tmd_k3f9q2_…`.
///
/// The server stores only its SHA-256. The secret has 256 random bits, so a slow hash, as passwords
/// need, would only slow the server down. The prefix and the id are public: lists, logs and the audit
/// name a token by its id, and programs that search for leaked secrets find them by the prefix.
package struct Token: Hashable, Sendable, CustomStringConvertible, CustomReflectable {
    /// The purpose of a token.
    package enum Kind: String, CaseIterable, Sendable {
        /// Typed or pasted once by a person, and exchanged for a device token.
        case signIn = "tmu"
        /// Sent by one device with every request, and rotated.
        case device = "tmd"
        /// Passed on by a member, and accepted by the person who becomes one.
        case invitation = "tmi"
        /// Sent by programs that read the server's metrics; it opens nothing else.
        case administrator = "tma"
    }

    /// Whether requests show this token; the others open no zone.
    package var opensRequests: Bool { kind == .device || kind == .administrator }

    package let kind: Kind
    /// The public part, unique among all tokens of a server.
    package let id: String
    /// The whole token, as requests send it.
    package let text: String

    package static func make(_ kind: Kind, using generator: inout some RandomNumberGenerator) -> Token {
        let id = Self.letters(idLength, using: &generator)
        let secret = Self.letters(secretLength, using: &generator)
        return Token(kind: kind, id: id, text: "\(kind.rawValue)_\(id)_\(secret)")
    }

    /// Parses the text of a request; nil if it has not the form of a token of this server.
    package init?(_ text: String) {
        let parts = text.split(separator: "_", omittingEmptySubsequences: false)
        guard parts.count == 3, let kind = Kind(rawValue: String(parts[0])), parts[1].count == Self.idLength,
            parts[2].count == Self.secretLength,
            (parts[1] + parts[2]).utf8.allSatisfy({ Self.alphabet.contains($0) })
        else { return nil }
        self.init(kind: kind, id: String(parts[1]), text: text)
    }

    /// Whether a text begins as a token of a server does, `tm?_`, so that no provider's verifier sees it.
    package static func isOwn(_ text: String) -> Bool {
        let start = Array(text.utf8.prefix(4))
        return start.count == 4 && start.starts(with: "tm".utf8) && start[3] == UInt8(ascii: "_")
    }

    private init(kind: Kind, id: String, text: String) {
        self.kind = kind
        self.id = id
        self.text = text
    }

    /// The public part, with the purpose; descriptions go to logs, so they leave the secret out.
    package var description: String { "\(kind.rawValue)_\(id)" }
    /// No children, so that `dump` and a test's failure do not print the secret.
    package var customMirror: Mirror { Mirror(self, children: []) }

    /// The SHA-256 of the text, in lower-case hexadecimal, as the server stores it.
    package var hash: String { ContentHash.of(text) }

    /// Digits and lower-case letters without 0, 1, l and o, which people confuse.
    private static let alphabet = Array("23456789abcdefghijkmnpqrstuvwxyz".utf8)
    /// 40 bits, to be unique among the tokens of one server.
    private static let idLength = 8
    /// 260 bits.
    private static let secretLength = 52

    private static func letters(_ count: Int, using generator: inout some RandomNumberGenerator) -> String {
        // The alphabet has 32 letters, so five bits choose one without a bias.
        String(decoding: (0..<count).map { _ in alphabet[Int(generator.next() & 31)] }, as: UTF8.self)
    }
}
