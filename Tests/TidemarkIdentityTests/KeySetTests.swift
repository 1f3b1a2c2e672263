import Foundation
import Testing

@testable import TidemarkIdentity

/// Sets of keys as providers publish them, also for other purposes.
@Suite struct KeySetTests {
    private static let good = SigningKey.es256("good")

    private static func set(_ members: [[String: Any]]) async throws -> KeySet {
        try await KeySet(json: try keySet(members), algorithms: [.es256, .rs256, .edDSA])
    }

    @Test func `keys for other purposes do not spoil the set, and each is named with its reason`() async throws {
        let others: [([String: Any], reason: String)] = [
            (["kty": "oct", "k": "c2VjcmV0", "kid": "shared"], "does not know its kind, oct"),
            (["kty": "EC", "crv": "P-384", "x": "AA", "y": "AA"], "P-384"),
            (["kty": "OKP", "crv": "X25519", "x": "AA"], "X25519"),
            (SigningKey.es256("enc").member(["use": "enc"]), "`use`"),
            (SigningKey.es256("ops").member(["key_ops": ["sign"]]), "`key_ops`"),
            (try SigningKey.rs256("pss").member(["alg": "PS256"]), "`alg` is not RS256"),
            (SigningKey.es256("none").member(["alg": "none"]), "`alg` is not ES256"),
            (SigningKey.es256("private").member(["d": "AAAA"]), "private part"),
            (try SigningKey.rs256("short", bits: 1_024).member(), "2,048 bits"),
            (SigningKey.es256("point").member(["x": base64URL([UInt8](repeating: 1, count: 32))]), "of its curve"),
            (SigningKey.es256("missing").member(["y": NSNull()]), "`y`"),
            (["kid": "typeless"], "`kty`"), (Self.good.member(), "`kid` of another key"),
        ]
        let set = try await Self.set([Self.good.member()] + others.map(\.0))
        #expect(set.keys.map(\.id) == ["good"])
        #expect(set.unusedKeys.count == others.count)
        for (unused, other) in zip(set.unusedKeys, others) {
            #expect(unused.contains(other.reason), "\(unused)")
        }
    }

    @Test func `a key is found by its id and for its own algorithm only`() async throws {
        let same = try SigningKey.rs256("good")
        let set = try await Self.set([Self.good.member(), same.member(), SigningKey.edDSA("ed").member()])
        #expect(try set.key(of: "good", for: .es256).algorithm == .es256)
        #expect(try set.key(of: "good", for: .rs256).algorithm == .rs256)
        #expect(throws: TokenRefusal.unfitKey) { try set.key(of: "good", for: .edDSA) }
        #expect(throws: TokenRefusal.unknownKey) { try set.key(of: "GOOD", for: .es256) }
        #expect(throws: TokenRefusal.unknownKey) { try set.key(of: "", for: .es256) }
        #expect(throws: TokenRefusal.unknownKey) { try set.key(of: nil, for: .es256) }
    }

    @Test func `a token without a key's id fits the only key, and one with an id does not fit a key without`()
        async throws
    {
        let single = try await Self.set([SigningKey.es256(nil).member()])
        #expect(try single.key(of: nil, for: .es256).id == nil)
        #expect(throws: TokenRefusal.unknownKey) { try single.key(of: "any", for: .es256) }
        let named = try await Self.set([Self.good.member()])
        #expect(try named.key(of: nil, for: .es256).id == "good")
    }

    @Test func `brackets in texts are no nesting, and 32 values within one another are enough`() {
        #expect(JSONValue(Array("[\"\(String(repeating: "[", count: 100))\"]".utf8)) != nil)
        #expect(JSONValue(Array(#"["\\","[\"[["]"#.utf8)) != nil)
        for (depth, isValid) in [(32, true), (33, false)] {
            let text = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
            #expect((JSONValue(Array(text.utf8)) != nil) == isValid)
        }
    }

    @Test(arguments: [0, 31]) func `a short secret is refused`(count: Int) async throws {
        await #expect(throws: KeySetProblem.self) { try await KeySet(secret: [UInt8](repeating: 1, count: count)) }
    }
}
