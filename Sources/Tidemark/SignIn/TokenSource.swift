/// The source of the tokens of one transport.
protocol TokenSource: Sendable {
    /// Whether a request without a token may be sent again with one after a refusal.
    var hasTokenAfterRefusal: Bool { get }

    /// Returns the token of a request that is about to be sent.
    func lease() async throws -> TokenLease

    /// Returns another token than the refused one, which is nil for a request without; nil if there is no other.
    func lease(afterRefusalOf token: String?) async throws -> TokenLease?

    /// Returns a number that changes with the token; nil without a token.
    func mark() async -> Int?
}

/// A token while a request sends it: no process replaces the token before ``end()``.
final class TokenLease: Sendable {
    let token: String?
    private let lock: TokenLock?

    init(_ token: String?, lock: TokenLock? = nil) {
        self.token = token
        self.lock = lock
    }

    /// Ends the lease: the server has answered, or the request has failed.
    func end() { lock?.release() }
}

/// The source of a transport without credentials.
struct NoTokens: TokenSource {
    let hasTokenAfterRefusal = false

    func lease() async throws -> TokenLease { TokenLease(nil) }
    func lease(afterRefusalOf token: String?) async throws -> TokenLease? { nil }
    func mark() async -> Int? { nil }
}

/// The tokens that an app stores or fetches by itself.
struct ProvidedTokens: TokenSource {
    let hasTokenAfterRefusal = false
    /// Returns a token; another one, if the server has refused it.
    let provide: @Sendable (_ isRefused: Bool) async throws -> String?

    func lease() async throws -> TokenLease { TokenLease(try await provide(false)) }

    func lease(afterRefusalOf token: String?) async throws -> TokenLease? {
        guard let token, let fresh = try await provide(true), fresh != token else { return nil }
        return TokenLease(fresh)
    }

    func mark() async -> Int? {
        // The app may be signed out; then its function throws, and there is no token.
        (try? await provide(false))?.hashValue
    }
}
