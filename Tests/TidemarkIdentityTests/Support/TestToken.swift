import Foundation

/// A token of a test: header and claims as given, signed by a key.
struct TestToken {
    /// The time of the tests, in seconds since 1970.
    static let second = 1_790_000_000
    /// The same time in milliseconds.
    static let now = Int64(second) * 1_000
    static let issuer = "https://login.example.org/"
    static let audience = "tidemark"

    var header: [String: Any] = [:]
    var claims: [String: Any] = [
        "iss": Self.issuer, "aud": Self.audience, "sub": "248289", "iat": Self.second - 10, "exp": Self.second + 3_600,
    ]

    /// Makes a good token with changes; `NSNull` takes a member away.
    init(header: [String: Any] = [:], claims: [String: Any] = [:]) {
        self.header = header
        self.claims = self.claims.merging(claims) { $1 }.filter { !($1 is NSNull) }
    }

    /// Returns the text, signed by a key.
    func text(by key: SigningKey) throws -> String {
        var full: [String: Any] = ["alg": key.algorithm, "typ": "JWT"]
        if let id = key.id { full["kid"] = id }
        full = full.merging(header) { $1 }.filter { !($1 is NSNull) }
        let parts = [try Self.part(full), try Self.part(claims)].joined(separator: ".")
        return "\(parts).\(base64URL(try key.sign(Array(parts.utf8))))"
    }

    /// JSON in base64url.
    static func part(_ object: Any) throws -> String {
        base64URL(try JSONSerialization.data(withJSONObject: object, options: [.sortedKeys]))
    }
}
