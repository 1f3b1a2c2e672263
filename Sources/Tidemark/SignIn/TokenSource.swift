/// The source of the tokens of one transport.
protocol TokenSource: Sendable {
    /// Returns the token of a request that is about to be sent.
    func lease() async throws -> TokenLease

    /// Returns another token than the refused one, which is nil for a request without; nil if there is no other.
    func lease(afterRefusalOf token: String?) async throws -> TokenLease?

    /// Returns a number that changes with the token; nil without a token.
    func mark() async -> Int?
}

/// A token while a request sends it: no process replaces the token before the request releases the lock.
struct TokenLease: Sendable {
    let token: String?
    var lock: TokenLock?
}

/// The tokens that an app stores or fetches by itself.
struct ProvidedTokens: TokenSource {
    /// Returns a token; another one, if the server has refused it.
    let provide: @Sendable (Credentials.Need) async throws -> String?

    func lease() async throws -> TokenLease { TokenLease(token: try await provide(.request)) }

    func lease(afterRefusalOf token: String?) async throws -> TokenLease? {
        guard let token, let fresh = try await provide(.refused), fresh != token else { return nil }
        return TokenLease(token: fresh)
    }

    func mark() async -> Int? {
        // The app may be signed out; then its function throws, and there is no token.
        (try? await provide(.request))?.hashValue
    }
}
