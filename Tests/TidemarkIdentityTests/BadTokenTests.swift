import Foundation
import Testing
import TidemarkEngine
import TidemarkTestSupport

@testable import TidemarkIdentity

/// Tokens that a stranger, a member or a careless provider may send.
@Suite struct BadTokenTests {
    private static let es = SigningKey.es256()
    private static let ed = SigningKey.edDSA()
    private static let second = TestToken.second

    /// A bad token, and the reason for which it must be refused.
    struct Bad: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let refusal: TokenRefusal
        let text: @Sendable () throws -> String

        init(_ name: String, _ refusal: TokenRefusal, _ text: @escaping @Sendable () throws -> String) {
            testDescription = name
            self.refusal = refusal
            self.text = text
        }
    }

    /// A token whose header or claims are bad, and whose signature is good.
    private static func signed(
        _ name: String, _ refusal: TokenRefusal, header: @escaping @Sendable () -> [String: Any] = { [:] },
        claims: @escaping @Sendable () -> [String: Any] = { [:] }
    ) -> Bad {
        Bad(name, refusal) { try TestToken(header: header(), claims: claims()).text(by: es) }
    }

    /// A good token, with a change in one of its three parts.
    private static func changed(_ part: Int, _ change: (String) throws -> String) throws -> String {
        var parts = try TestToken().text(by: es).split(separator: ".").map(String.init)
        parts[part] = try change(parts[part])
        return parts.joined(separator: ".")
    }

    private static func unsigned(_ algorithm: String) throws -> String {
        let header = try TestToken.part(["alg": algorithm, "typ": "JWT", "kid": "es"])
        return "\(header).\(try TestToken.part(TestToken().claims))."
    }

    static let forgeries = [
        Bad("no token at all", .malformed) { "" },
        Bad("two parts", .malformed) { "e30.e30" },
        Bad("four parts", .malformed) { try TestToken().text(by: es) + ".e30" },
        Bad("five parts, as of an encrypted token", .malformed) { "e30.e30.e30.e30.e30" },
        Bad("a header that is no JSON", .malformed) { try changed(0) { _ in "bm9uc2Vuc2U" } },
        Bad("a header that is a list", .malformed) { try changed(0) { _ in base64URL(Array("[]".utf8)) } },
        Bad("claims that are nested too deeply", .malformed) {
            try changed(1) { _ in
                let depth = 1_000
                let nested = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
                return base64URL(Array("{\"iss\":\"\(TestToken.issuer)\",\"x\":\(nested)}".utf8))
            }
        },
        Bad("padding", .malformed) { try changed(1) { $0 + "=" } },
        Bad("a line break", .malformed) { try TestToken().text(by: es) + "\n" },
        Bad("bits after the last byte of the signature", .malformed) {
            try changed(2) { signature in
                let letters = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
                let last = letters.firstIndex(of: signature.last ?? "A") ?? 0
                return String(signature.dropLast()) + String(letters[last ^ 1])
            }
        },
        Bad("more than 8 KiB", .tooLong) {
            try TestToken(claims: ["note": String(repeating: "x", count: 8_192)]).text(by: es)
        },
        Bad("algorithm none, without a signature", .otherAlgorithm) { try unsigned("none") },
        Bad("algorithm None", .otherAlgorithm) { try unsigned("None") },
        Bad("no signature", .wrongSignature) { try unsigned("ES256") },
        Bad("a signature of zeros", .wrongSignature) {
            try changed(2) { _ in base64URL([UInt8](repeating: 0, count: 64)) }
        },
        Bad("a signature of DER, not of two numbers", .wrongSignature) {
            try changed(2) { _ in base64URL([0x30, 0x06, 0x02, 0x01, 0x01, 0x02, 0x01, 0x01]) }
        },
        Bad("other claims under the same signature", .wrongSignature) {
            try changed(1) { _ in try TestToken.part(TestToken(claims: ["sub": "1"]).claims) }
        },
        Bad("the public key used as the secret of HS256", .otherAlgorithm) {
            let secret = SigningKey.hs256(Array((es.published["x"] ?? "").utf8), id: "es")
            return try TestToken().text(by: secret)
        },
        Bad("a key that the attacker has made", .wrongSignature) { try TestToken().text(by: .es256("es")) },
        Bad("the key's id, with the algorithm of another key", .unfitKey) {
            try TestToken(header: ["kid": "es"]).text(by: ed)
        },
        Bad("an unknown key", .unknownKey) { try TestToken().text(by: .es256("other")) },
        Bad("a key's id that is a number", .malformed) { try TestToken(header: ["kid": 1]).text(by: es) },
        Bad("no key's id, where there are several keys", .unknownKey) {
            try TestToken(header: ["kid": NSNull()]).text(by: es)
        },
        Bad("the attacker's key in the header (jwk)", .wrongSignature) {
            let own = SigningKey.es256("es")
            return try TestToken(header: ["jwk": own.member()]).text(by: own)
        },
        Bad("an address of the attacker's keys (jku)", .wrongSignature) {
            try TestToken(header: ["jku": "https://evil.example/keys"]).text(by: .es256("es"))
        },
        Bad("an address of the attacker's certificate (x5u)", .wrongSignature) {
            try TestToken(header: ["x5u": "https://evil.example/c.pem"]).text(by: .es256("es"))
        },
    ]

    static let goodSignatures = [
        signed("an extension that must be understood", .unknownHeader) { ["crit": ["exp"], "exp": 1] },
        signed("a payload that is not encoded", .unknownHeader) { ["b64": false] },
        signed("the notice of a sign-out", .otherType) { ["typ": "logout+jwt"] },
        signed("another issuer", .otherIssuer, claims: { ["iss": "https://login.example.org"] }),
        signed("no issuer", .otherIssuer, claims: { ["iss": NSNull()] }),
        signed("another app of the same provider", .otherAudience, claims: { ["aud": "shop"] }),
        signed("several other apps", .otherAudience, claims: { ["aud": ["shop", "tidemark2"]] }),
        signed("no audience", .otherAudience, claims: { ["aud": NSNull()] }),
        signed("no end", .hasNoEnd, claims: { ["exp": NSNull()] }),
        signed("an end that is a text", .invalidTime, claims: { ["exp": "1790003600"] }),
        signed("an end after all time", .invalidTime, claims: { ["exp": 1e300] }),
        signed("an end in milliseconds", .invalidTime, claims: { ["exp": TestToken.now + 1] }),
        signed("an end that has just passed", .hasEnded, claims: { ["exp": second] }),
        signed("not valid for two minutes", .notYetValid, claims: { ["nbf": second + 120] }),
        signed("issued in two minutes", .notYetValid, claims: { ["iat": second + 120] }),
        signed("a life of more than a day", .livesTooLong, claims: { ["exp": second + 86_400] }),
        signed(
            "a life of a year, without its begin", .livesTooLong,
            claims: { ["exp": second + 31_536_000, "iat": NSNull()] }),
        signed("no user", .namesNoUser, claims: { ["sub": NSNull()] }),
        signed("an empty user", .namesNoUser, claims: { ["sub": ""] }),
        signed("a user that is a number", .namesNoUser, claims: { ["sub": 248_289] }),
        signed("a user with a line break", .namesNoUser, claims: { ["sub": "a\nb"] }),
        signed("a user of 300 bytes", .namesNoUser, claims: { ["sub": String(repeating: "u", count: 300)] }),
        signed("a claim of another type", .otherClaim, claims: { ["cities": "all"] }),
    ]

    @Test(arguments: forgeries + goodSignatures) func `a bad token is refused for its reason`(_ bad: Bad) async throws {
        let place = try Place()
        let verifier = try await place.verifier(
            of: [Self.es, Self.ed], algorithms: [.es256, .edDSA], claims: ["cities": .integers])
        #expect(try await refusal(of: try bad.text(), by: verifier) == bad.refusal)
        #expect(verifier.rememberedTokens == 0)
    }

    @Test func `a good token of each kind names its user`() async throws {
        let place = try Place()
        let keys = [SigningKey.es256(), .edDSA(), try .rs256()]
        let verifier = try await place.verifier(of: keys, claims: ["cities": .integers, "team": .text])
        for key in keys {
            let token = TestToken(
                header: ["jku": "https://evil.example/keys"],
                claims: ["aud": ["shop", "tidemark"], "cities": [1, 2], "team": "north"])
            let user = try await verifier.user(try token.text(by: key))
            #expect(user.id == "acme|248289")
            #expect(user.expires == TestToken.now + 3_600_000)
            #expect(user.claims == ["cities": .integers([1, 2]), "team": .text("north")])
            #expect(!user.isAdministrator && user.device == nil)
        }
    }

    @Test func `an algorithm that the provider does not list is refused, although there is a key for it`() async throws
    {
        let place = try Place()
        let key = try SigningKey.rs256()
        let verifier = try await place.verifier(of: [key, Self.es], algorithms: [.es256])
        #expect(try await refusal(of: try TestToken().text(by: key), by: verifier) == .otherAlgorithm)
    }

    @Test func `clocks may differ by a minute, but a token's end is its end`() async throws {
        let place = try Place()
        let verifier = try await place.verifier(of: [Self.es])
        for claims in [["nbf": Self.second + 59], ["iat": Self.second + 59], ["exp": Self.second + 86_390]] {
            #expect(try await refusal(of: try TestToken(claims: claims).text(by: Self.es), by: verifier) == nil)
        }
    }

    @Test func `a shared secret verifies HS256 and nothing else`() async throws {
        let place = try Place()
        let secret = [UInt8](repeating: 7, count: 32)
        let file = try place.write(secret, to: "secret")
        let provider = place.provider(.secretFile(file), algorithms: [.hs256])
        let verifier = try await ProviderTokens([provider], now: { TestToken.now })
        #expect(try await refusal(of: try TestToken().text(by: .hs256(secret)), by: verifier) == nil)
        #expect(try await refusal(of: try TestToken().text(by: .hs256(secret, id: "any")), by: verifier) == nil)
        let other = SigningKey.hs256([UInt8](repeating: 8, count: 32))
        #expect(try await refusal(of: try TestToken().text(by: other), by: verifier) == .wrongSignature)
        #expect(try await refusal(of: try TestToken().text(by: Self.es), by: verifier) == .otherAlgorithm)
        #expect(try await refusal(of: try Self.unsigned("none"), by: verifier) == .otherAlgorithm)
    }

    @Test func `a token is refused at its end, although it was verified before`() async throws {
        let place = try Place()
        let clock = TestClock(TestToken.now)
        let verifier = try await place.verifier(of: [Self.es], now: clock.now)
        let token = try TestToken().text(by: Self.es)
        #expect(try await refusal(of: token, by: verifier) == nil)
        #expect(verifier.rememberedTokens == 1)
        clock.advance(seconds: 3_599)
        #expect(try await refusal(of: token, by: verifier) == nil)
        clock.advance(seconds: 1)
        #expect(try await refusal(of: token, by: verifier) == .hasEnded)
    }

    @Test func `ten thousand changed tokens are refused, and none is remembered`() async throws {
        let place = try Place()
        let verifier = try await place.verifier(of: [Self.es])
        let good = Array(try TestToken().text(by: Self.es).utf8)
        var generator = SeededGenerator(seed: 42)
        for _ in 0..<10_000 {
            var bytes = good
            let place = Int(generator.next() % UInt64(bytes.count))
            bytes[place] ^= UInt8(1 + generator.next() % 255)
            let text = String(decoding: bytes, as: UTF8.self)
            await #expect(throws: (any Error).self, "\(text)") { try await verifier.user(text) }
        }
        #expect(verifier.rememberedTokens == 0)
    }
}
