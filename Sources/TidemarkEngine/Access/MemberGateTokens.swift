import TidemarkCore

/// The exchange and the end of the server's own tokens.
extension MemberGate: TokenIssuer {
    /// Refuses a token that is not valid.
    public func check(_ token: String) async throws {
        guard let shown = Token(token), shown.kind != .invitation, try await holder(of: shown) != nil
        else { throw Self.signInNeeded }
        guard shown.kind != .administrator else { throw Self.metricsOnly }
    }

    /// Exchanges a valid token for a device token.
    public func exchange(_ token: String, device: String) async throws -> IssuedToken {
        guard hasOwnUsers, let shown = Token(token) else { throw Self.signInNeeded }
        guard shown.kind != .administrator else { throw Self.metricsOnly }
        let now = now()
        let random = random
        let issued = try await database.transaction { statements in
            var generator = random()
            return try Tokens(statements, now: now).exchange(shown, device: device, using: &generator)
        }
        guard let issued else { throw Self.signInNeeded }
        return issued
    }

    /// Revokes a valid token and its chain.
    public func revoke(_ token: String) async throws {
        guard let shown = Token(token) else { throw Self.signInNeeded }
        guard shown.kind != .administrator else { throw Self.metricsOnly }
        let now = now()
        let isValid = try await database.transaction { statements in
            let tokens = Tokens(statements, now: now)
            guard let holder = try tokens.show(shown) else { return false }
            try tokens.revoke(id: holder.id, by: holder.user)
            return true
        }
        guard isValid else { throw Self.signInNeeded }
    }
}
