/// Exchanges and ends the tokens of a server that issues its own.
public protocol TokenIssuer: Sendable {
    /// Exchanges a sign-in token, or the token of a device, for a new token of that device.
    ///
    /// The old token stays valid until the new one is first used, so a lost answer loses nothing.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/signInNeeded`` when the token is not valid.
    func exchange(_ token: String, device: String) async throws -> IssuedToken

    /// Ends a token: its device has signed out.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/signInNeeded`` when the token is not valid.
    func revoke(_ token: String) async throws
}

/// A new token, as the server tells it once.
public struct IssuedToken: Hashable, Sendable, Encodable {
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
}
