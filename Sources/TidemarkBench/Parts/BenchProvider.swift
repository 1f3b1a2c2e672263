import TidemarkCore
import Crypto
import Foundation
import TidemarkEmbedded
import TidemarkEngine
import TidemarkIdentity

/// An identity provider of a benchmark's own, and the gate of a server that trusts it.
struct BenchProvider {
    /// The gate, which lets every signed-in user write.
    let gate: MemberGate
    private let key = P256.Signing.PrivateKey()

    private static let issuer = "https://login.example.org/"
    private static let audience = "tidemark"
    private static let keyID = "bench"

    /// Makes the provider's key, and a database of users at a path.
    init(keysAt keysPath: String, usersAt usersPath: String) async throws {
        let point = key.publicKey.rawRepresentation
        let member = [
            "kty": "EC", "crv": "P-256", "kid": Self.keyID, "x": Self.text(point.prefix(32)),
            "y": Self.text(point.suffix(32)),
        ]
        try JSONEncoder().encode(["keys": [member]]).write(to: URL(filePath: keysPath))
        let provider = IdentityProvider(
            name: "bench", issuer: Self.issuer, audience: Self.audience, keys: .file(keysPath), algorithms: [.es256])
        let tokens = try await ProviderTokens([provider], now: SystemClock.milliseconds)
        gate = MemberGate(
            try AccessFile(path: usersPath),
            policy: AccessPolicy(
                hasOwnUsers: false, verifier: tokens, zones: ["main": AccessPolicy.ZoneRights(everybody: .writer)]),
            now: SystemClock.milliseconds)
    }

    /// Signs a token for a user, good for an hour.
    func token(for user: String) throws -> String {
        let second = Int(SystemClock.milliseconds() / 1_000)
        let header = #"{"alg":"ES256","kid":"\#(Self.keyID)","typ":"JWT"}"#
        let claims =
            #"{"iss":"\#(Self.issuer)","aud":"\#(Self.audience)","sub":"\#(user)","#
            + #""iat":\#(second),"exp":\#(second + 3_600)}"#
        let parts = [header, claims].map { Self.text(Data($0.utf8)) }.joined(separator: ".")
        return "\(parts).\(Self.text(try key.signature(for: Data(parts.utf8)).rawRepresentation))"
    }

    /// The text of bytes in base64url.
    private static func text(_ bytes: Data) -> String {
        bytes.base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }
}
