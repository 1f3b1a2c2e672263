internal import TidemarkCore
internal import JWTKit

/// A key of a JSON Web Key Set (RFC 7517), whose type fixes the algorithm.
///
/// Only the members that matter are read, and each is passed on one by one. So a key of an unknown
/// kind does not spoil its set, and a key never takes the algorithm that a token states.
struct PublishedKey {
    private let id: String?
    private let algorithm: SignatureAlgorithm
    private let key: JWK
    /// The most characters of a member: an RSA key of 8,192 bits has 1,366.
    private static let charactersMax = 1_400

    /// Reads a key; throws the reason why the server cannot use it.
    init(_ value: JSONValue, algorithms: Set<SignatureAlgorithm>) throws(KeySetProblem) {
        guard let members = value.members, let type = members["kty"]?.text else {
            throw KeySetProblem("it has no type (`kty`)")
        }
        guard members["d"] == nil else {
            throw KeySetProblem("it holds its private part (`d`), so anybody could sign with it")
        }
        id = members["kid"]?.text
        guard members["kid"] == nil || id != nil else { throw KeySetProblem("its `kid` is no text") }
        if let use = members["use"], use != .text("sig") { throw KeySetProblem("its `use` is not sig") }
        if let operations = members["key_ops"], operations.texts?.contains("verify") != true {
            throw KeySetProblem("its `key_ops` do not hold verify")
        }
        let identifier = JWKIdentifier(string: id ?? "")
        switch (type, members["crv"]?.text) {
        case ("RSA", _):
            algorithm = .rs256
            key = .rsa(
                .rs256, identifier: identifier, modulus: try Self.text("n", of: members),
                exponent: try Self.text("e", of: members))
        case ("EC", "P-256"):
            algorithm = .es256
            key = .ecdsa(
                .es256, identifier: identifier, x: try Self.text("x", of: members), y: try Self.text("y", of: members),
                curve: .p256)
        case ("OKP", "Ed25519"):
            algorithm = .edDSA
            key = .octetKeyPair(
                .eddsa, identifier: identifier, x: try Self.text("x", of: members), y: nil, curve: .ed25519)
        case (_, let curve):
            let name = String("\(type)\(curve.map { " \($0)" } ?? "")".prefix(40))
            throw KeySetProblem("the server does not know its kind, \(name)")
        }
        if let stated = members["alg"], stated != .text(algorithm.rawValue) {
            throw KeySetProblem("its `alg` is not \(algorithm.rawValue)")
        }
        guard algorithms.contains(algorithm) else {
            throw KeySetProblem("`algorithms` does not hold \(algorithm.rawValue)")
        }
    }

    /// Makes the key that checks signatures, alone in its collection, so that no other one can be taken for it.
    func key() async throws(KeySetProblem) -> KeySet.Key {
        let collection = JWTKeyCollection()
        do {
            try await collection.add(jwk: key, isDefault: false)
            let check = try await collection.getKey(for: key.keyIdentifier, alg: algorithm.rawValue)
            return KeySet.Key(id: id, algorithm: algorithm, check: check)
        } catch { throw KeySetProblem("its numbers are no key of at least 2,048 bits (RSA) or of its curve") }
    }

    private static func text(_ name: String, of members: [String: JSONValue]) throws(KeySetProblem) -> String {
        guard let text = members[name]?.text, text.utf8.count <= charactersMax, Base64URL.bytes(text) != nil else {
            throw KeySetProblem("its `\(name)` is missing, too long, or no base64url")
        }
        return text
    }
}
