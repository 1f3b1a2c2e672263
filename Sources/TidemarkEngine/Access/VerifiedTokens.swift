package import Crypto

/// The tokens whose signatures the server has verified, until they end.
///
/// A signature takes up to a tenth of the server's work for a change set, and a device sends the same
/// token for an hour. The tokens are kept by their SHA-256, so the memory of a server holds none.
package struct VerifiedTokens: Sendable {
    /// The most tokens; the one whose last use is oldest makes room for a new one.
    package static let countMax = 10_000

    private var users: LeastRecent<SHA256Digest, Caller.User>

    package init(countMax: Int = Self.countMax) { users = LeastRecent(countMax: countMax) }

    /// The number of tokens, with those that have ended and not made room yet.
    package var count: Int { users.count }

    package static func hash(of token: String) -> SHA256Digest { SHA256.hash(data: Array(token.utf8)) }

    /// Returns the user of a token; nil if it is unknown or has ended at a time in milliseconds since 1970.
    package mutating func user(_ hash: SHA256Digest, now: Int64) -> Caller.User? {
        guard let user = users.use(hash), let expires = user.expires, expires > now else { return nil }
        return user
    }

    /// Keeps the user of a verified token; a token without an end is not kept.
    package mutating func remember(_ user: Caller.User, for hash: SHA256Digest) {
        guard user.expires != nil else { return }
        users.set(user, for: hash)
    }

    /// Forgets all tokens, because the keys that verified them have changed.
    package mutating func forgetAll() { users.removeAll() }
}
