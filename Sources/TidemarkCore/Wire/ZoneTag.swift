import Crypto

/// The revision of a device's copy, and a hash of its epoch, schema and rows.
///
/// Equal tags mean that the device and the server agree in all of these. The tag is sent as an HTTP
/// entity tag, `"1000-kY2fW0v9-3nBqX7d"`. `Docs/PROTOCOL.md` defines the hash.
public struct ZoneTag: Hashable, Sendable {
    /// The revision.
    public let revision: Int64
    /// The hash, 96 bits in base64url.
    public let hash: String
    /// The length of a hash in characters.
    public static let hashLength = 16

    /// Creates a tag.
    public init(revision: Int64, hash: String) {
        self.revision = revision
        self.hash = hash
    }

    package init(epoch: String, schema: String, revision: Int64, fingerprint: Fingerprint) {
        // None of the parts contains a line feed.
        let text = "\(epoch)\n\(schema)\n\(revision)\n\(fingerprint.hex)"
        let bytes = SHA256.hash(data: Array(text.utf8)).prefix(Self.hashLength / 4 * 3)
        self.init(revision: revision, hash: Base64URL.text(bytes))
    }

    /// Parses an entity tag, also a weak one, `W/"..."`, as proxies make it; nil for any other text.
    public init?(entityTag: String) {
        let tag = entityTag.hasPrefix("W/") ? entityTag.dropFirst(2) : entityTag[...]
        guard tag.count >= 2, tag.first == "\"", tag.last == "\"" else { return nil }
        let text = tag.dropFirst().dropLast()
        guard let dash = text.firstIndex(of: "-"), dash != text.startIndex,
            text[..<dash].allSatisfy({ $0.isASCII && $0.isNumber }), let revision = Int64(text[..<dash])
        else { return nil }
        let hash = text[text.index(after: dash)...]
        guard hash.count == Self.hashLength, hash.allSatisfy(Self.isDigit) else { return nil }
        self.init(revision: revision, hash: String(hash))
    }

    /// The HTTP entity tag, with its quotation marks.
    public var entityTag: String { "\"\(revision)-\(hash)\"" }

    private static func isDigit(_ character: Character) -> Bool {
        character.isASCII && (character.isLetter || character.isNumber || character == "-" || character == "_")
    }
}
