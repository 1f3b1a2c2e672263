internal import Synchronization
package import TidemarkCore
package import TidemarkEngine

/// Verifies the tokens of the identity providers that a server trusts.
package final class ProviderTokens: TokenVerifier {
    private let providers: [ProviderKeys]
    private let now: @Sendable () -> Int64
    private let memory = Mutex(Memory())

    private struct Memory {
        var tokens = VerifiedTokens()
        /// The changes of all providers' keys at the time of the verifications.
        var generation = 0

        /// Forgets all tokens if a key has changed: the key of a token may have been withdrawn.
        mutating func follow(_ newGeneration: Int) {
            guard generation != newGeneration else { return }
            tokens.forgetAll()
            generation = newGeneration
        }
    }

    /// A provider, as `tidemark access check` shows it.
    package struct Summary: Hashable, Sendable {
        package let name: String
        /// The number of keys that the server can use.
        package let keys: Int
        /// The reasons why other keys are not used.
        package let unusedKeys: [String]
    }

    /// Reads or fetches the keys of all providers, by milliseconds since 1970; throws if one has no usable key.
    package init(_ providers: [IdentityProvider], fetch: FetchKeys = FetchKeys(), now: @escaping @Sendable () -> Int64)
        async throws(TidemarkError)
    {
        var keys: [ProviderKeys] = []
        for provider in providers { keys.append(try await ProviderKeys(of: provider, fetch: fetch, now: now)) }
        self.providers = keys
        self.now = now
    }

    package var summaries: [Summary] {
        providers.map { provider in
            let keys = provider.keys
            return Summary(name: provider.provider.name, keys: keys.count, unusedKeys: keys.unusedKeys)
        }
    }

    /// The number of tokens that need no verification again.
    package var rememberedTokens: Int { memory.withLock { $0.tokens.count } }

    /// Fetches the keys that are due; returns the names of the providers whose keys could not be fetched.
    package func refreshKeys() async -> [String] {
        var failed: [String] = []
        for provider in providers where await !provider.refreshIfDue() { failed.append(provider.provider.name) }
        return failed
    }

    package func user(_ token: String) async throws -> Caller.User {
        do {
            guard token.utf8.count <= SignedToken.bytesMax else { throw TokenRefusal.tooLong }
            let hash = VerifiedTokens.hash(of: token)
            let generation = generation
            let now = now()
            let known = memory.withLock { memory in
                memory.follow(generation)
                return memory.tokens.user(hash, now: now)
            }
            if let known, providers.allSatisfy(\.areUsable) { return known }
            let user = try await verify(SignedToken(token))
            // A key that changed meanwhile may be the one that verified the token.
            memory.withLock { memory in
                guard memory.generation == generation, self.generation == generation else { return }
                memory.tokens.remember(user, for: hash)
            }
            return user
        } catch let refusal as TokenRefusal { throw refusal.error }
    }

    /// Whether the token was verified already and has not ended.
    package func remembers(_ token: String) -> Bool {
        guard token.utf8.count <= SignedToken.bytesMax else { return false }
        let hash = VerifiedTokens.hash(of: token)
        let generation = generation
        let now = now()
        return memory.withLock { $0.generation == generation && $0.tokens.user(hash, now: now) != nil }
    }

    private var generation: Int { providers.reduce(0) { $0 + $1.generation } }

    /// Verifies a token: provider and audience, algorithm, key, signature, then the claims.
    private func verify(_ token: SignedToken) async throws -> Caller.User {
        let issuer = token.payload["iss"]?.text
        let candidates = providers.filter { $0.provider.issuer == issuer }
        guard !candidates.isEmpty else { throw TokenRefusal.otherIssuer }
        let now = now()
        guard
            let keys = candidates.first(where: { CheckClaims(provider: $0.provider, now: now).isForUs(token.payload) })
        else { throw TokenRefusal.otherAudience }
        guard let algorithm = SignatureAlgorithm(rawValue: token.algorithm),
            keys.provider.algorithms.contains(algorithm)
        else { throw TokenRefusal.otherAlgorithm }
        try await keys.key(of: token.keyID, for: algorithm).check(token)
        return try CheckClaims(provider: keys.provider, now: self.now()).user(token.payload)
    }
}
