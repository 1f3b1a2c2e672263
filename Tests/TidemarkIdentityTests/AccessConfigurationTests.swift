import Foundation
import Testing
import TidemarkCore
import TidemarkEngine

@testable import TidemarkIdentity

/// The access file: strict, and every problem at once with its place.
@Suite struct AccessConfigurationTests {
    private static func problems(_ json: String) -> [String] {
        AccessConfiguration.read(Array(json.utf8), folder: "/etc/tidemark").problems
    }

    @Test func `a whole file is read`() throws {
        let place = try Place()
        let path = try place.write(
            Array(
                """
                { "identity": { "builtIn": true, "providers": [
                    { "name": "acme", "issuer": "https://login.example.org/", "audience": "tidemark",
                      "keys": "https://login.example.org/.well-known/jwks.json", "algorithms": ["ES256", "RS256"],
                      "user": "email", "claims": { "cities": "integers", "team": "text" } },
                    { "name": "old", "issuer": "old", "audience": "tidemark", "secretFile": "hs256.key" },
                    { "name": "file", "issuer": "file", "audience": "tidemark", "keys": "keys.json",
                      "algorithms": ["EdDSA"] } ] },
                  "zones": { "main": { "everybody": "writer" }, "news": { "anonymous": true } },
                  "limits": { "requestsPerUser": { "perMinute": 600 },
                              "snapshotsPerDevice": { "perMinute": 1, "burst": 3 } } }
                """.utf8
            ),
            to: "access.json"
        )
        let configuration = try AccessConfiguration(path: path)
        #expect(configuration.hasOwnUsers)
        #expect(configuration.providers.map(\.name) == ["acme", "old", "file"])
        let first = try #require(configuration.providers.first)
        #expect(first.keys == .url("https://login.example.org/.well-known/jwks.json"))
        #expect(first.algorithms == [.es256, .rs256])
        #expect(first.userClaim == "email")
        #expect(first.claims == ["cities": .integers, "team": .text])
        #expect(configuration.providers[1].keys == .secretFile(place.path("hs256.key")))
        #expect(configuration.providers[1].algorithms == [.hs256])
        #expect(configuration.providers[2].keys == .file(place.path("keys.json")))
        #expect(configuration.zones["main"] == AccessPolicy.ZoneRights(everybody: .writer))
        #expect(configuration.zones["news"] == AccessPolicy.ZoneRights(isOpenToAnonymous: true))
        #expect(configuration.limits[.requestsPerUser] == RateLimits.Rate(perMinute: 600, burst: 600))
        #expect(configuration.limits[.snapshotsPerDevice] == RateLimits.Rate(perMinute: 1, burst: 3))
        #expect(configuration.limits[.requestsPerDevice] == RateLimits.standard[.requestsPerDevice])
    }

    @Test func `all problems are reported at once, each with its place`() {
        let problems = Self.problems(
            """
            { "identity": { "builtin": true, "providers": [
                { "name": "a|b", "issuer": "", "audience": 5, "keys": "http://login.example.org/keys",
                  "algorithms": ["none"], "claims": { "team": "string" } },
                { "name": "x", "issuer": "i", "audience": "a", "keys": "k.json", "algorithms": ["HS256", "RS256"] },
                { "name": "y", "issuer": "i", "audience": "a", "secretFile": "s", "algorithms": ["RS256"] },
                { "name": "z", "issuer": "i", "audience": "a", "keys": "k.json", "secretFile": "s" },
                { "issuer": "i2", "audience": "a", "keys": "k.json" }, 7 ] },
              "zones": { "main": { "everybody": "owner", "anonymous": 1, "kind": "public" } },
              "parts": {}, "rules": {},
              "limits": { "requestsPerUser": { "burst": 0 }, "requestPerUser": {} } }
            """
        )
        let places = [
            "parts: ", "rules: ", "identity.builtin: ", "identity.providers[0].name: ",
            "identity.providers[0].issuer: ", "identity.providers[0].audience: ", "identity.providers[0].keys: ",
            "identity.providers[0].algorithms: ", "identity.providers[0].claims.team: ",
            "identity.providers[1].algorithms: ", "identity.providers[2].algorithms: ", "identity.providers[3]: ",
            "identity.providers[3].algorithms: ", "identity.providers[4].name: ",
            "identity.providers[4].algorithms: ", "identity.providers[5]: ", "identity.providers[5].name: ",
            "identity.providers[5].issuer: ", "identity.providers[5].audience: ", "identity.providers[5]: ",
            "identity.providers[5].algorithms: ", "zones.main.kind: ", "zones.main.everybody: ",
            "zones.main.anonymous: ", "limits.requestPerUser: ", "limits.requestsPerUser.perMinute: ",
            "limits.requestsPerUser.burst: ",
        ]
        #expect(problems.count == places.count, "\(problems.joined(separator: "\n"))")
        for (problem, place) in zip(problems, places) { #expect(problem.hasPrefix(place), "\(problem)") }
    }

    @Test(arguments: [
        ("", "no JSON"), ("[]", "write an object"), ("{}", "nobody could sign in"),
        (#"{"identity": {"builtIn": false}}"#, "nobody could sign in"),
        (#"{"identity": {"providers": []}}"#, "nobody could sign in"),
        (#"{"identity": {"builtIn": "yes"}}"#, "write true or false"),
        (#"{"identity": {"builtIn": true, "proxy": {}}}"#, "identity.proxy: there is no such setting"),
        (#"{"identity": {"builtIn": true}, "tls": {}}"#, "tls: there is no such setting"),
        (#"{"identity": {"builtIn": true}} x"#, "no JSON"),
    ]) func `a file that would let in the wrong people is refused`(json: String, problem: String) {
        let problems = Self.problems(json)
        #expect(problems.contains { $0.contains(problem) }, "\(problems)")
    }

    @Test func `two providers with one name, or one issuer and audience, are refused`() {
        let provider = { (name: String, issuer: String) in
            #"{"name": "\#(name)", "issuer": "\#(issuer)", "audience": "a", "keys": "k", "algorithms": ["ES256"]}"#
        }
        let problems = Self.problems(
            """
            {"identity": {"providers": [\(provider("a", "i")), \(provider("a", "j")), \(provider("b", "i"))]}}
            """
        )
        #expect(
            problems == [
                "identity.providers[1].name: another provider has this name",
                "identity.providers[2].issuer: another provider has this issuer and audience",
            ]
        )
    }

    @Test func `the error names the file and every problem, and no secret`() throws {
        let place = try Place()
        let path = try place.write(Array(#"{"identity": {"builtIn": 1}, "x": 1}"#.utf8), to: "access.json")
        do {
            _ = try AccessConfiguration(path: path)
            Issue.record("it was read")
        } catch {
            #expect(error.code == .unusableFile)
            #expect(error.message.contains("\(path) has 3 problems:\n  x: "))
            #expect(error.message.contains("\n  identity.builtIn: "))
        }
        #expect(throws: TidemarkError.self) { try AccessConfiguration(path: place.path("missing.json")) }
    }

    @Test func `a secret of a text file is used without its line break, and a short one is refused`() async throws {
        let place = try Place()
        let text = String(repeating: "s", count: 32)
        let key = SigningKey.hs256(Array(text.utf8))
        for end in ["", "\n", "\r\n"] {
            let file = try place.write(Array((text + end).utf8), to: "secret")
            let tokens = try await ProviderTokens(
                [place.provider(.secretFile(file), algorithms: [.hs256])], now: { TestToken.now })
            #expect(try await refusal(of: try TestToken().text(by: key), by: tokens) == nil)
        }
        let short = try place.write(Array((String(repeating: "s", count: 31) + "\n").utf8), to: "short")
        await #expect(throws: TidemarkError.self) {
            try await ProviderTokens([place.provider(.secretFile(short), algorithms: [.hs256])], now: { 0 })
        }
    }
}
