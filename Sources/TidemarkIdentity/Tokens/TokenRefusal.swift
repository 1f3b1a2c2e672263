internal import TidemarkCore

/// A reason why the server does not accept a provider's token.
package enum TokenRefusal: String, Error, CaseIterable, Sendable {
    case tooLong
    case malformed
    case otherType
    case unknownHeader
    case otherIssuer
    case otherAudience
    case otherAlgorithm
    case unknownKey
    case unfitKey
    case wrongSignature
    case invalidTime
    case hasNoEnd
    case hasEnded
    case notYetValid
    case livesTooLong
    case namesNoUser
    case otherClaim

    private var reason: String {
        switch self {
        case .tooLong: "it has more than \(SignedToken.bytesMax) bytes"
        case .malformed: "it is no signed JSON Web Token"
        case .otherType: "its header `typ` is neither JWT nor at+jwt"
        case .unknownHeader: "its header requires an extension (`crit`, `b64`)"
        case .otherIssuer: "the server trusts no provider of its issuer (`iss`)"
        case .otherAudience: "it is for another service (`aud`)"
        case .otherAlgorithm: "its provider does not sign with its algorithm (`alg`)"
        case .unknownKey: "its provider publishes no key of its `kid`"
        case .unfitKey: "the key of its `kid` is for another algorithm"
        case .wrongSignature: "its signature is wrong"
        case .invalidTime: "one of `exp`, `nbf` and `iat` is no time"
        case .hasNoEnd: "it has no end (`exp`)"
        case .hasEnded: "it has ended (`exp`)"
        case .notYetValid: "it is not valid yet (`nbf`, `iat`)"
        case .livesTooLong: "it lives longer than 24 hours"
        case .namesNoUser: "it names no user, or one whose name is too long"
        case .otherClaim: "one of its claims has another type than the server's configuration says"
        }
    }

    var error: TidemarkError {
        TidemarkError(
            .signInNeeded, "The server does not accept this token: \(reason).",
            fix: "Send a current token of the identity provider, or one that the server's operator issued.")
    }
}
