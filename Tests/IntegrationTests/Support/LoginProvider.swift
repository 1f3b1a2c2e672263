import Crypto
import Foundation

/// An identity provider of a test: a key whose public part lies in a file, and tokens for users.
struct LoginProvider {
    static let issuer = "https://login.example.org/"
    private let id: String
    private let key = P256.Signing.PrivateKey()

    /// Makes a provider's key with an id.
    init(_ id: String) { self.id = id }

    /// The key set with the public part.
    var keys: String {
        let point = key.publicKey.rawRepresentation
        return """
            {"keys":[{"kty":"EC","crv":"P-256","kid":"\(id)","x":"\(Self.text(point.prefix(32)))",
              "y":"\(Self.text(point.suffix(32)))"}]}
            """
    }

    /// A token of a user, good for an hour from now.
    func token(for user: String, audience: String = "tidemark") throws -> String {
        let second = Int(Date().timeIntervalSince1970)
        let header = #"{"alg":"ES256","kid":"\#(id)","typ":"JWT"}"#
        let claims =
            #"{"iss":"\#(Self.issuer)","aud":"\#(audience)","sub":"\#(user)","#
            + #""iat":\#(second),"exp":\#(second + 3_600)}"#
        let parts = [header, claims].map { Self.text(Data($0.utf8)) }.joined(separator: ".")
        return "\(parts).\(Self.text(try key.signature(for: Data(parts.utf8)).rawRepresentation))"
    }

    private static func text(_ bytes: Data) -> String {
        bytes.base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }
}
