import Crypto
import CryptoExtras
import Foundation

/// A key of a provider, made in the test: signs tokens, and publishes its public part.
struct SigningKey: Sendable {
    let id: String?
    let algorithm: String
    /// The public part as a member of a key set.
    let published: [String: String]
    /// Signs bytes.
    let sign: @Sendable ([UInt8]) throws -> [UInt8]

    /// Makes an ES256 key.
    static func es256(_ id: String? = "es") -> SigningKey {
        let key = P256.Signing.PrivateKey()
        let point = Array(key.publicKey.rawRepresentation)
        return SigningKey(
            id: id,
            algorithm: "ES256",
            published: [
                "kty": "EC", "crv": "P-256", "x": base64URL(point.prefix(32)), "y": base64URL(point.suffix(32)),
            ]
        ) { Array(try key.signature(for: $0).rawRepresentation) }
    }

    /// Makes an EdDSA key.
    static func edDSA(_ id: String? = "ed") -> SigningKey {
        let key = Curve25519.Signing.PrivateKey()
        return SigningKey(
            id: id, algorithm: "EdDSA",
            published: ["kty": "OKP", "crv": "Ed25519", "x": base64URL(Array(key.publicKey.rawRepresentation))]
        ) { Array(try key.signature(for: $0)) }
    }

    /// Makes an RS256 key.
    static func rs256(_ id: String? = "rs", bits: Int = 2_048) throws -> SigningKey {
        let key =
            if bits < 2_048 { try _RSA.Signing.PrivateKey(unsafeKeySize: .init(bitCount: bits)) } else {
                try _RSA.Signing.PrivateKey(keySize: .init(bitCount: bits))
            }
        let numbers = try key.publicKey.getKeyPrimitives()
        return SigningKey(
            id: id,
            algorithm: "RS256",
            published: [
                "kty": "RSA", "n": base64URL(Array(numbers.modulus)), "e": base64URL(Array(numbers.publicExponent)),
            ]
        ) { Array(try key.signature(for: SHA256.hash(data: $0), padding: .insecurePKCS1v1_5).rawRepresentation) }
    }

    /// Makes an HS256 key of a secret.
    static func hs256(_ secret: [UInt8], id: String? = nil) -> SigningKey {
        SigningKey(id: id, algorithm: "HS256", published: [:]) {
            Array(HMAC<SHA256>.authenticationCode(for: $0, using: SymmetricKey(data: secret)))
        }
    }

    /// The member of a key set, with the id and what else a test wants.
    func member(_ others: [String: Any] = [:]) -> [String: Any] {
        var member: [String: Any] = published
        if let id { member["kid"] = id }
        return member.merging(others) { $1 }
    }
}

/// The text of bytes in base64url.
func base64URL(_ bytes: some Sequence<UInt8>) -> String {
    Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
}

/// A key set as a provider publishes it.
func keySet(_ members: [[String: Any]]) throws -> [UInt8] {
    Array(try JSONSerialization.data(withJSONObject: ["keys": members], options: [.sortedKeys]))
}
