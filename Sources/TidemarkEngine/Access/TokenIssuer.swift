/// Exchanges and ends the tokens of a server that issues its own.
public protocol TokenIssuer: Sendable {
    /// Refuses an invalid token by ``TidemarkCore/ErrorCode/signInNeeded``, before the server reads the request's body.
    func check(_ token: String) async throws

    /// Exchanges a sign-in token, or the token of a device, for a new token of that device.
    ///
    /// The old token stays valid until the new one is first used, so a lost answer loses nothing.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/signInNeeded`` when the token is not valid;
    ///   ``TidemarkCore/ErrorCode/notAllowed`` for the token of an administrator.
    func exchange(_ token: String, device: String) async throws -> IssuedToken

    /// Ends a token and its chain, at a sign-out; throws ``TidemarkCore/ErrorCode/signInNeeded`` for an invalid one.
    func revoke(_ token: String) async throws
}

/// A new token, as the server tells it once.
public struct IssuedToken: Hashable, Sendable, Encodable, CustomStringConvertible, CustomReflectable {
    /// The token.
    public let token: String
    /// The moment when it ends, in milliseconds since 1970.
    public let expires: Int64
    /// The user's id.
    public let user: String

    /// Makes a description of a token.
    public init(token: String, expires: Int64, user: String) {
        self.token = token
        self.expires = expires
        self.user = user
    }
    /// The user and the end; descriptions go to logs, so they leave the token out.
    public var description: String { "a token of \(user) until \(expires)" }
    /// No children, so that `dump` and a test's failure do not print the token.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
