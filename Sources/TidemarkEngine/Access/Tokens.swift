import TidemarkCore

/// Issues, exchanges and revokes tokens, in one transaction of the caller.
///
/// A chain is the tokens that began with one sign-in; a revocation for misuse ends all of them.
package struct Tokens {
    private let database: any AccessStatements
    private let now: Int64

    /// How long a sign-in token can be exchanged, in milliseconds: a week.
    package static let signInDuration: Int64 = 7 * day
    /// How long a device token is valid, in milliseconds: 90 days.
    package static let deviceDuration: Int64 = 90 * day
    private static let day: Int64 = 86_400_000

    /// The facts about a valid token.
    package struct Holder: Hashable, Sendable {
        /// The token's purpose.
        package let kind: Token.Kind
        /// The token's id, for lists and the audit.
        package let token: String
        /// The user who holds it.
        package let user: String
        /// The device that it was issued to.
        package let device: String?
        /// The moment when it ends.
        package let expires: Int64
        /// Whether the request showed the token for the first time, so that the database changed.
        package let isFirst: Bool
    }

    private struct Stored {
        let id: String
        let kind: Token.Kind
        let user: String
        let chain: String
        let predecessor: String?
        let device: String?
        let state: TokenState
        let expires: Int64
    }

    package init(_ database: any AccessStatements, now: Int64) {
        self.database = database
        self.now = now
    }

    /// Issues a token that begins a chain.
    package func issue(
        _ kind: Token.Kind,
        to user: String,
        device: String? = nil,
        duration: Int64,
        using generator: inout some RandomNumberGenerator
    ) throws -> Token {
        let token = Token.make(kind, using: &generator)
        try insert(token, user: user, chain: token.id, predecessor: nil, device: device, expires: now + duration)
        return token
    }

    /// Checks the token of a request.
    ///
    /// A refusal can revoke the chain, so the caller commits whether or not this returns a holder.
    ///
    /// - Returns: Its holder; nil when the token is unknown, has ended, or was revoked.
    package func show(_ token: Token) throws -> Holder? {
        guard let stored = try stored(token), stored.expires > now, try !isDisabled(stored.user) else { return nil }
        let step = stored.state.after(.shown, kind: stored.kind)
        if step.state != stored.state { try set(step.state, of: stored.id) }
        switch step.reaction {
        case .none, .refuse: return nil
        case .refuseAndRevokeChain:
            try revoke(chain: stored.chain)
            try Audit(database, now: now).append(.tokenReused, by: stored.user, subject: stored.id)
            return nil
        case .acceptAndRetirePredecessor:
            if let predecessor = stored.predecessor { try retire(predecessor) }
        case .accept: break
        }
        return Holder(
            kind: stored.kind,
            token: stored.id,
            user: stored.user,
            device: stored.device,
            expires: stored.expires,
            isFirst: stored.state == .issued
        )
    }

    /// Exchanges a valid token for a device token of the same chain.
    ///
    /// Tokens of an earlier exchange whose answer was lost are deleted: nobody has shown them.
    package func exchange(
        _ holder: Holder,
        device: String,
        using generator: inout some RandomNumberGenerator
    ) throws -> Token {
        try database.rows(
            "DELETE FROM tidemark_token WHERE predecessor = $1 AND state = $2",
            [holder.token, TokenState.issued.rawValue]
        )
        let chain = try database.rows("SELECT chain FROM tidemark_token WHERE id = $1", [holder.token])
        let token = Token.make(.device, using: &generator)
        try insert(
            token,
            user: holder.user,
            chain: chain.first?.text(0) ?? token.id,
            predecessor: holder.token,
            device: device,
            expires: now + Self.deviceDuration
        )
        return token
    }

    /// Revokes one token, for instance at a sign-out.
    ///
    /// - Returns: Whether there is such a token.
    @discardableResult package func revoke(id: String) throws -> Bool {
        try !database.rows(
            "UPDATE tidemark_token SET state = $1 WHERE id = $2 RETURNING id",
            [TokenState.revoked.rawValue, id]
        ).isEmpty
    }

    private func revoke(chain: String) throws {
        try database.rows(
            "UPDATE tidemark_token SET state = $1 WHERE chain = $2",
            [TokenState.revoked.rawValue, chain]
        )
    }

    private func retire(_ id: String) throws {
        let rows = try database.rows("SELECT state, kind FROM tidemark_token WHERE id = $1", [id])
        guard let row = rows.first, let state = row.text(0).flatMap(TokenState.init(rawValue:)),
            let kind = row.text(1).flatMap(Token.Kind.init(rawValue:))
        else { return }
        try set(state.after(.successorShown, kind: kind).state, of: id)
    }

    private func set(_ state: TokenState, of id: String) throws {
        try database.rows(
            "UPDATE tidemark_token SET state = $1 WHERE id = $2",
            [state.rawValue, id]
        )
    }

    private func isDisabled(_ user: String) throws -> Bool {
        try !database.rows("SELECT 1 FROM tidemark_user WHERE id = $1 AND disabled IS NOT NULL", [user]).isEmpty
    }

    private func stored(_ token: Token) throws -> Stored? {
        let rows = try database.rows(
            """
            SELECT id, kind, user_id, chain, predecessor, device, state, expires
            FROM tidemark_token
            WHERE hash = $1
            """,
            [token.hash]
        )
        guard let row = rows.first, let id = row.text(0), let kind = row.text(1).flatMap(Token.Kind.init(rawValue:)),
            let user = row.text(2), let chain = row.text(3), let state = row.text(6).flatMap(TokenState.init(rawValue:)),
            let expires = row.integer(7)
        else { return nil }
        return Stored(
            id: id,
            kind: kind,
            user: user,
            chain: chain,
            predecessor: row.text(4),
            device: row.text(5),
            state: state,
            expires: expires
        )
    }

    private func insert(
        _ token: Token,
        user: String,
        chain: String,
        predecessor: String?,
        device: String?,
        expires: Int64
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
            ]
        )
    }
}
