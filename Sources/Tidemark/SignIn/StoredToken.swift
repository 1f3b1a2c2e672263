/// The token of a device at one server, as the device stores it; descriptions leave the secret out.
public struct StoredToken: Hashable, Sendable, Codable {
    /// The secret, as requests send it.
    public let token: String
    /// The id of the user who signed in.
    public let user: String
    /// The time when the device received the token by its own clock, in milliseconds since 1970.
    public let issued: Int64
    /// The time when the token ends by the server's clock, in milliseconds since 1970.
    public let expires: Int64
    /// The id under which the server knows the holder of the token, a UUID.
    public let device: String
    /// The public part of the sign-in token with which the person signed in.
    public let signIn: String

    /// Makes a description of a token.
    public init(token: String, user: String, issued: Int64, expires: Int64, device: String, signIn: String) {
        self.token = token
        self.user = user
        self.issued = issued
        self.expires = expires
        self.device = device
        self.signIn = signIn
    }

    /// The shortest life that the device assumes, in milliseconds: a day, because two clocks measure it.
    static let lifeMin: Int64 = 86_400_000

    /// Whether the last third of the token's life has begun, or all seems over, at a time in milliseconds since 1970.
    func isAgeing(at time: Int64) -> Bool {
        let (life, overflows) = expires.subtractingReportingOverflow(issued)
        let (age, isFar) = time.subtractingReportingOverflow(issued)
        guard !overflows, !isFar else { return false }
        return age / 2 >= max(life, Self.lifeMin) / 3
    }
}

extension StoredToken: CustomStringConvertible, CustomReflectable {
    /// The user and the end of the token.
    public var description: String { "token of \(user), until \(expires)" }
    /// The parts without the secret.
    public var customMirror: Mirror { Mirror(self, children: ["user": user, "expires": expires]) }
}

/// A token that a person types once, and that the device exchanges for one of its own: `tmu_k3f9q2xx_…`.
enum SignInToken {
    private static let prefix = "tmu"

    /// Returns the public part of a sign-in token; nil if the text has another form.
    static func id(of text: String) -> String? {
        let parts = text.split(separator: "_", omittingEmptySubsequences: false)
        guard parts.count == 3, parts[0] == prefix, !parts[1].isEmpty, !parts[2].isEmpty else { return nil }
        return String(parts[1])
    }
}
