internal import JWTKit

/// The keys that verify a provider's tokens.
package struct KeySet: Sendable {
    package static let countMax = 100
    /// The least bytes of the secret of HS256.
    package static let secretBytesMin = 32

    /// A key, for one algorithm.
    struct Key: Sendable {
        /// The id; nil for a key that has none.
        let id: String?
        let algorithm: SignatureAlgorithm
        let check: any JWTAlgorithm
    }

    /// The keys that the server can use.
    let keys: [Key]
    /// The reasons why other keys of the set are not used.
    package let unusedKeys: [String]
    /// Whether every token is signed with the only key, the secret, whatever `kid` it states.
    private let isSecret: Bool
    package var count: Int { keys.count }

    /// Reads a JSON Web Key Set, without keys that the server cannot use: a provider may have them for other purposes.
    ///
    /// - Throws: The reason, in words, if the bytes are no such set, or hold too many keys.
    package init(json: [UInt8], algorithms: Set<SignatureAlgorithm>) async throws(KeySetProblem) {
        guard case .list(let members)? = JSONValue(json)?.members?["keys"] else {
            throw KeySetProblem("it is no JSON Web Key Set, {\"keys\": [...]}")
        }
        guard members.count <= Self.countMax else {
            throw KeySetProblem("it has \(members.count) keys, at most \(Self.countMax)")
        }
        var keys: [Key] = []
        var unused: [String] = []
        for (index, member) in members.enumerated() {
            do throws(KeySetProblem) {
                let key = try await PublishedKey(member, algorithms: algorithms).key()
                guard !keys.contains(where: { $0.id == key.id && $0.algorithm == key.algorithm }) else {
                    throw KeySetProblem("it has the `kid` of another key")
                }
                keys.append(key)
            } catch { unused.append("key \(index + 1): \(error.reason)") }
        }
        self.keys = keys
        unusedKeys = unused
        isSecret = false
    }

    /// Makes the set of a provider that shares a secret with the server; throws if the secret is too short.
    package init(secret: [UInt8]) async throws(KeySetProblem) {
        guard secret.count >= Self.secretBytesMin else {
            throw KeySetProblem("it has \(secret.count) bytes, at least \(Self.secretBytesMin)")
        }
        let id = JWKIdentifier(string: "secret")
        let collection = JWTKeyCollection()
        await collection.add(hmac: HMACKey(from: secret), digestAlgorithm: .sha256, kid: id)
        do {
            let check = try await collection.getKey(for: id)
            keys = [Key(id: nil, algorithm: .hs256, check: check)]
        } catch { throw KeySetProblem("it cannot be used: \(error)") }
        unusedKeys = []
        isSecret = true
    }

    /// Whether there is a key for tokens with a `kid`, or for tokens without one.
    func contains(_ id: String?) -> Bool { !keys(of: id).isEmpty }

    /// Returns the key for a token; throws ``TokenRefusal/unknownKey`` or ``TokenRefusal/unfitKey``.
    func key(of id: String?, for algorithm: SignatureAlgorithm) throws(TokenRefusal) -> Key {
        let keys = keys(of: id)
        guard !keys.isEmpty else { throw .unknownKey }
        guard let key = keys.first(where: { $0.algorithm == algorithm }) else { throw .unfitKey }
        return key
    }

    /// The keys for tokens with a `kid`; a token without one fits a set with only one key.
    private func keys(of id: String?) -> [Key] {
        if isSecret { return keys }
        guard let id else { return keys.count == 1 ? keys : [] }
        return keys.filter { $0.id == id }
    }
}

/// The reason why a key, or a set of keys, cannot be used.
package struct KeySetProblem: Error, Hashable, Sendable {
    /// The reason, in words, about the key or the set.
    package let reason: String

    init(_ reason: String) { self.reason = reason }
}

extension KeySet.Key {
    func check(_ token: SignedToken) throws(TokenRefusal) {
        let isValid: Bool
        do { isValid = try check.verify(token.signature, signs: token.signedBytes) } catch {
            // A signature of the wrong length is an error there.
            throw .wrongSignature
        }
        guard isValid else { throw .wrongSignature }
    }
}
