/// Checks the tokens of the identity providers that a server trusts.
///
/// ``MemberGate`` asks it about every token that does not have the form of the server's own.
public protocol TokenVerifier: Sendable {
    /// Returns the user whom a token names, with the moment when the token ends.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/signInNeeded`` with the reason, for a token that is not valid;
    ///   ``TidemarkCore/ErrorCode/unavailable`` while the provider's keys cannot be read.
    func user(_ token: String) async throws -> Caller.User

    /// Whether the token was verified already and has not ended.
    func remembers(_ token: String) -> Bool
}

extension TokenVerifier {
    /// Returns false: the verifier remembers no tokens.
    public func remembers(_ token: String) -> Bool { false }
}
