internal import TidemarkEngine

/// Checks the claims of a verified token (RFC 7519, section 4.1), and takes the user from them.
struct CheckClaims {
    let provider: IdentityProvider
    /// The time, in milliseconds since 1970.
    let now: Int64
    /// How far the clocks of provider and server may differ, in milliseconds.
    static let leeway: Int64 = 60_000
    /// The longest life of a token, in milliseconds.
    static let lifetimeMax: Int64 = 24 * 3_600_000
    private static let userBytesMax = 255
    /// The last second of the year 9999.
    private static let secondMax: Int64 = 253_402_300_799

    /// Whether a token is for the server.
    func isForUs(_ payload: [String: JSONValue]) -> Bool {
        guard let audience = payload["aud"] else { return false }
        return audience.text == provider.audience || audience.texts?.contains(provider.audience) == true
    }

    /// Returns the user; the end has no leeway, or a late server would accept a token that its owner takes for dead.
    func user(_ payload: [String: JSONValue]) throws(TokenRefusal) -> Caller.User {
        guard payload["iss"]?.text == provider.issuer else { throw .otherIssuer }
        guard isForUs(payload) else { throw .otherAudience }
        guard let end = try time("exp", in: payload) else { throw .hasNoEnd }
        guard end > now else { throw .hasEnded }
        let issued = try time("iat", in: payload)
        for start in [issued, try time("nbf", in: payload)] {
            if let start, start > now + Self.leeway { throw .notYetValid }
        }
        guard end - (issued ?? now) <= Self.lifetimeMax else { throw .livesTooLong }
        return Caller.User(id: try id(payload), expires: end, claims: try claims(payload))
    }

    /// Returns a time in milliseconds; nil if the claim is absent.
    private func time(_ name: String, in payload: [String: JSONValue]) throws(TokenRefusal) -> Int64? {
        switch payload[name] {
        case nil: return nil
        case .integer(let seconds) where (0...Self.secondMax).contains(seconds): return seconds * 1_000
        case .number(let seconds) where (0...Double(Self.secondMax)).contains(seconds): return Int64(seconds * 1_000)
        default: throw .invalidTime
        }
    }

    private func id(_ payload: [String: JSONValue]) throws(TokenRefusal) -> String {
        guard let name = payload[provider.userClaim]?.text, !name.isEmpty,
            !name.unicodeScalars.contains(where: { $0.properties.generalCategory == .control })
        else { throw .namesNoUser }
        let id = "\(provider.name)|\(name)"
        guard id.utf8.count <= Self.userBytesMax else { throw .namesNoUser }
        return id
    }

    private func claims(_ payload: [String: JSONValue]) throws(TokenRefusal) -> [String: Caller.User.Claim] {
        var claims: [String: Caller.User.Claim] = [:]
        for (name, type) in provider.claims {
            guard let value = payload[name], value != .null else { continue }
            guard let claim = type.claim(value) else { throw .otherClaim }
            claims[name] = claim
        }
        return claims
    }
}
