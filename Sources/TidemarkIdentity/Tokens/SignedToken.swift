internal import TidemarkCore

/// A signed JSON Web Token in its compact form (RFC 7515, section 3.1), not yet verified.
struct SignedToken: Sendable {
    static let bytesMax = 8 << 10
    /// The name of the algorithm, as the token states it.
    let algorithm: String
    /// The id of the key; nil if the token names none.
    let keyID: String?
    let payload: [String: JSONValue]
    /// The bytes that the signature covers.
    let signedBytes: [UInt8]
    let signature: [UInt8]
    /// The types that a token may state (RFC 9068), because a provider signs other tokens with the same keys, too.
    private static let types = ["jwt", "at+jwt", "application/at+jwt"]

    /// Parses a token; headers with a key or its place (`jwk`, `jku`) are not read: the server knows the keys.
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
