internal import TidemarkCore

/// A signed JSON Web Token in its compact form (RFC 7515, section 3.1), not yet verified.
struct SignedToken: Sendable {
    /// The most bytes of a token.
    static let bytesMax = 8 << 10
    /// The name of the algorithm, as the token states it.
    let algorithm: String
    /// The id of the key; nil if the token names none.
    let keyID: String?
    /// The claims.
    let payload: [String: JSONValue]
    /// The bytes that the signature covers.
    let signedBytes: [UInt8]
    /// The signature.
    let signature: [UInt8]

    /// The types that a token may state: a JSON Web Token, or an access token (RFC 9068).
    ///
    /// A provider signs other tokens with the same keys, for instance the notice of a sign-out.
    private static let types = ["jwt", "at+jwt", "application/at+jwt"]

    /// Parses a token.
    ///
    /// Headers that bring a key along or say where it is (`jwk`, `x5c`, `jku`, `x5u`) are not read:
    /// the server knows the keys of its providers.
    init(_ text: String) throws(TokenRefusal) {
        guard text.utf8.count <= Self.bytesMax else { throw .tooLong }
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let headerBytes = Base64URL.bytes(parts[0]),
            let payloadBytes = Base64URL.bytes(parts[1]), let signature = Base64URL.bytes(parts[2]),
            let header = JSONValue(headerBytes)?.members, let payload = JSONValue(payloadBytes)?.members,
            let algorithm = header["alg"]?.text
        else { throw .malformed }
        if let type = header["typ"] {
            guard let type = type.text, Self.types.contains(type.lowercased()) else { throw .otherType }
        }
        guard header["crit"] == nil, header["b64"] == nil else { throw .unknownHeader }
        if let keyID = header["kid"] {
            guard let keyID = keyID.text else { throw .malformed }
            self.keyID = keyID
        } else {
            keyID = nil
        }
        self.algorithm = algorithm
        self.payload = payload
        self.signature = signature
        signedBytes = Array("\(parts[0]).\(parts[1])".utf8)
    }
}
