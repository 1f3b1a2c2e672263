/// The tokens of a server, as lists show them, in one transaction of the caller: no secret, and no hash of one.
package struct TokenRegister {
    private let database: any AccessStatements

    /// A token without its secret.
    package struct Entry: Hashable, Sendable {
        package let id: String
        package let kind: Token.Kind
        package let user: String
        /// The id of the token that began the chain of exchanges.
        package let chain: String
        /// The id of the token that was exchanged for it.
        package let predecessor: String?
        package let device: String?
        package let state: TokenState
        /// The time of its issue, in milliseconds since 1970.
        package let created: Int64
        /// The moment when it ends, in milliseconds since 1970.
        package let expires: Int64
        /// The time when it was replaced, in milliseconds since 1970; nil if it was not.
        package let retired: Int64?

        /// Returns what a request that shows it does.
        func shown(at now: Int64) -> (state: TokenState, reaction: TokenState.Reaction) {
            state.after(TokenState.showing(at: now, retired: retired), kind: kind)
        }

        package func canAct(at now: Int64) -> Bool { expires > now && (state == .issued || state == .active) }

        /// Returns the word of lists for the token's state: `unused`, `active`, `ended`, `replaced` or `revoked`.
        package func condition(at now: Int64) -> String {
            switch state {
            case .revoked: "revoked"
            case .retired: "replaced"
            case .issued, .active: expires <= now ? "ended" : state == .issued ? "unused" : "active"
            }
        }
    }

    package init(_ database: any AccessStatements) { self.database = database }

    /// Returns all tokens, or those of one user, oldest first.
    package func entries(of user: String? = nil) throws -> [Entry] {
        try database.rows(
            "\(Self.selection) WHERE user_id = COALESCE($1, user_id) ORDER BY created, id", [user]
        ).compactMap(Self.entry)
    }

    /// Returns the token with this hash, nil for an unknown one; it does not count as shown.
    package func entry(hash: String) throws -> Entry? {
        try database.rows("\(Self.selection) WHERE hash = $1", [hash]).first.flatMap(Self.entry)
    }

    func entry(id: String) throws -> Entry? {
        try database.rows("\(Self.selection) WHERE id = $1", [id]).first.flatMap(Self.entry)
    }

    private static let selection = """
        SELECT id, kind, user_id, chain, predecessor, device, state, created, expires, retired
        FROM tidemark_token
        """

    private static func entry(_ row: AccessRow) -> Entry? {
        guard let id = row.text(0), let kind = row.text(1).flatMap(Token.Kind.init(rawValue:)), let user = row.text(2),
            let chain = row.text(3), let state = row.text(6).flatMap(TokenState.init(rawValue:)),
            let created = row.integer(7), let expires = row.integer(8)
        else { return nil }
        return Entry(
            id: id, kind: kind, user: user, chain: chain, predecessor: row.text(4), device: row.text(5), state: state,
            created: created, expires: expires, retired: row.integer(9))
    }
}
