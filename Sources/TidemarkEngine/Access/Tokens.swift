import TidemarkCore

/// Issues, exchanges and revokes tokens in the caller's transaction; a chain is those that began with one sign-in.
package struct Tokens: AccessCell {
    package let session: AccessSession

    /// How long a sign-in token can be exchanged, in milliseconds: a week.
    package static let signInDuration: Int64 = 7 * day
    /// How long a device token is valid, in milliseconds: 90 days.
    package static let deviceDuration: Int64 = 90 * day
    private static let day: Int64 = 86_400_000
    /// The moment when a token without an end ends.
    package static let never = Int64.max

    package init(_ session: AccessSession) { self.session = session }

    private var register: TokenRegister { TokenRegister(database) }

    /// The result of a look at a token, which changes nothing.
    package enum Look: Hashable, Sendable {
        case valid(TokenRegister.Entry)
        /// The token is unknown, has ended, was revoked, or its user is disabled.
        case invalid
        /// The look decides nothing, because the token changes when it is shown: use ``Tokens/show(_:)``.
        case changes
    }

    /// Issues a token that begins a chain, and ends after `duration` milliseconds, or never.
    ///
    /// - Throws: `invalidArgument` for an unknown user.
    package func issue(
        _ kind: Token.Kind, to user: String, duration: Int64?, by author: String? = nil,
        using generator: inout some RandomNumberGenerator
    ) throws -> Token {
        try members.require(user)
        let token = Token.make(kind, using: &generator)
        try insert(token, user: user, chain: token.id, expires: duration.map { now + $0 } ?? Self.never)
        try audit.append(.tokenIssued, by: author, subject: token.id, detail: "\(kind.rawValue) for \(user)")
        return token
    }

    /// Reads two rows by their indexes and writes nothing, so a token that nobody issued costs little.
    package func look(_ token: Token) throws -> Look {
        guard let entry = try valid(token) else { return .invalid }
        let step = entry.shown(at: now)
        guard step.state == entry.state else { return .changes }
        return step.reaction == .accept ? .valid(entry) : .invalid
    }

    /// Checks the token of a request, and changes its state; nil when it is unknown, has ended, or was revoked.
    ///
    /// A refusal can revoke the chain, so the caller commits whether or not this returns an entry.
    package func show(_ token: Token) throws -> TokenRegister.Entry? {
        guard let entry = try valid(token) else { return nil }
        let step = entry.shown(at: now)
        if step.state != entry.state { try set(step.state, of: entry.id) }
        switch step.reaction {
        case .none, .refuse: return nil
        case .refuseAndRevokeChain:
            try revoke(chain: entry.chain)
            try audit.append(.tokenReused, by: entry.user, subject: entry.id)
            return nil
        case .acceptAndRetirePredecessor:
            if let predecessor = entry.predecessor { try retire(predecessor) }
        case .accept: break
        }
        return entry
    }

    /// Exchanges a token for a device token of the same chain; nil when the token is not valid.
    ///
    /// The token is checked in the same transaction: one that was revoked or retired a moment ago has no successor. A
    /// token of an earlier exchange whose answer was lost is deleted: nobody has shown it. So are tokens of the chain
    /// that have ended. A refusal can revoke the chain, so the caller commits whether or not this returns a token.
    package func exchange(_ token: Token, device: String, using generator: inout some RandomNumberGenerator) throws
        -> IssuedToken?
    {
        guard let shown = try show(token) else { return nil }
        try database.rows(
            "DELETE FROM tidemark_token WHERE chain = $1 AND (expires <= $2 OR (predecessor = $3 AND state = $4))",
            [shown.chain, "\(now)", shown.id, TokenState.issued.rawValue])
        let successor = Token.make(.device, using: &generator)
        let expires = now + Self.deviceDuration
        try insert(
            successor, user: shown.user, chain: shown.chain, predecessor: shown.id, device: device, expires: expires)
        try audit.append(.tokenExchanged, by: shown.user, subject: successor.id, detail: "for \(shown.id)")
        return IssuedToken(token: successor.text, expires: expires, user: shown.user)
    }

    /// Revokes a token and its chain, in which a thief may have another token; returns whether there is such a token.
    @discardableResult package func revoke(id: String, by author: String? = nil) throws -> Bool {
        guard let chain = try register.entry(id: id)?.chain else { return false }
        if try revoke(chain: chain) { try audit.append(.tokenRevoked, by: author, subject: id) }
        return true
    }

    /// Revokes the chains of all tokens of a user's device, and returns whether one was not revoked before.
    package func revoke(device: String, of user: String) throws -> Bool {
        let ids = try database.rows(
            "SELECT id FROM tidemark_token WHERE user_id = $1 AND device = $2 AND state <> $3 ORDER BY created, id",
            [user, device, TokenState.revoked.rawValue]
        ).compactMap { $0.text(0) }
        // One chain can have several of them.
        for id in ids { try revoke(id: id, by: user) }
        return !ids.isEmpty
    }

    /// Revokes all tokens of a chain, and returns whether one of them was not revoked before.
    @discardableResult private func revoke(chain: String) throws -> Bool {
        try !database.rows(
            "UPDATE tidemark_token SET state = $1 WHERE chain = $2 AND state <> $1 RETURNING id",
            [TokenState.revoked.rawValue, chain]
        ).isEmpty
    }

    private func retire(_ id: String) throws {
        if planted(PlantedBug.acceptsOldTokenTwice) { return }
        guard let entry = try register.entry(id: id) else { return }
        try set(entry.state.after(.successorShown, kind: entry.kind).state, of: id)
    }

    private func set(_ state: TokenState, of id: String) throws {
        guard state == .retired else {
            try database.rows("UPDATE tidemark_token SET state = $1 WHERE id = $2", [state.rawValue, id])
            return
        }
        try database.rows(
            "UPDATE tidemark_token SET state = $1, retired = COALESCE(retired, $2) WHERE id = $3",
            [state.rawValue, "\(now)", id])
    }

    /// Returns a token that has not ended and whose user is not disabled.
    private func valid(_ token: Token) throws -> TokenRegister.Entry? {
        guard let entry = try register.entry(hash: token.hash), entry.expires > now else { return nil }
        return try members.isDisabled(entry.user) ? nil : entry
    }

    private func insert(
        _ token: Token, user: String, chain: String, predecessor: String? = nil, device: String? = nil, expires: Int64
    ) throws {
        try database.rows(
            """
            INSERT INTO tidemark_token
                (id, kind, user_id, hash, chain, predecessor, device, state, created, expires)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
            """,
            [
                token.id, token.kind.rawValue, user, token.hash, chain,
                predecessor, device, TokenState.issued.rawValue, "\(now)",
                "\(expires)",
            ])
    }
}
