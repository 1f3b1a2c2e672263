/// What a device has of a zone, in a few bytes: the revision, and a hash of the history, the schema
/// and the rows.
///
/// Equal tags mean that device and server agree in all of these. It travels as an entity tag of
/// HTTP, `"1000-kY2fW0v9-3nBqX7d"`. `Docs/PROTOCOL.md` says how the hash is made.
public struct ZoneTag: Hashable, Sendable {
    /// The revision.
    public let revision: Int64
    /// 96 bits, base64url.
    public let hash: String

    /// The characters of a hash.
    public static let hashLength = 16

    /// Makes a tag.
    public init(revision: Int64, hash: String) { (self.revision, self.hash) = (revision, hash) }

    /// Reads an entity tag; nil for anything that no server of a zone gives.
    ///
    /// One that a proxy has made weak, `W/"..."`, means the same.
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

    /// The tag as it travels, with its quotation marks.
    public var entityTag: String { "\"\(revision)-\(hash)\"" }

    private static func isDigit(_ character: Character) -> Bool {
        character.isASCII && (character.isLetter || character.isNumber || character == "-" || character == "_")
    }
}
