/// The tokens of a server, as lists show them, in one transaction of the caller: no secret, and no hash of one.
package struct TokenRegister {
    private let database: any AccessStatements

    /// A token without its secret.
    package struct Entry: Hashable, Sendable {
        package let id: String
        package let kind: Token.Kind
        package let user: String
        package let device: String?
        package let state: TokenState
        /// The time of its issue, in milliseconds since 1970.
        package let created: Int64
        /// The moment when it ends, in milliseconds since 1970.
        package let expires: Int64

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
            """
            SELECT id, kind, user_id, device, state, created, expires
            FROM tidemark_token
            WHERE user_id = COALESCE($1, user_id)
            ORDER BY created, id
            """,
            [user]
        ).compactMap(Self.entry)
    }

    /// Returns the token with this hash, nil for an unknown one; it does not count as shown.
    package func entry(hash: String) throws -> Entry? {
        try database.rows(
            "SELECT id, kind, user_id, device, state, created, expires FROM tidemark_token WHERE hash = $1", [hash]
        ).first.flatMap(Self.entry)
    }

    private static func entry(_ row: AccessRow) -> Entry? {
        guard let id = row.text(0), let kind = row.text(1).flatMap(Token.Kind.init(rawValue:)), let user = row.text(2),
            let state = row.text(4).flatMap(TokenState.init(rawValue:)), let created = row.integer(5),
            let expires = row.integer(6)
        else { return nil }
        return Entry(
            id: id, kind: kind, user: user, device: row.text(3), state: state, created: created, expires: expires)
    }
}
