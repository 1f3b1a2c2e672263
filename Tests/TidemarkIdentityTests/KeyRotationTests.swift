import Foundation
import Testing
import TidemarkCore

@testable import TidemarkIdentity

/// A provider with a web server of its own, which changes its keys, fails, or misbehaves.
@Suite struct KeyRotationTests {
    private static func tokens(
        _ place: Place, _ server: KeyServer, _ clock: TestClock, patience: Duration = .seconds(30)
    ) async throws -> ProviderTokens {
        try await ProviderTokens(
            [place.provider(.url(server.url))], fetch: FetchKeys(patience: patience), now: clock.now)
    }

    /// A token of a day's life, so that the keys decide and not the token's end.
    private static func token(by key: SigningKey, at clock: TestClock) throws -> String {
        let second = Int(clock.now() / 1_000)
        return try TestToken(claims: ["iat": second, "exp": second + 86_400]).text(by: key)
    }

    private static func code(_ work: () async throws -> Void) async -> ErrorCode? {
        do {
            try await work()
            return nil
        } catch { return (error as? TidemarkError)?.code }
    }

    @Test func `a token of a new key is accepted at once, and one of a withdrawn key no more`() async throws {
        let place = try Place()
        let clock = TestClock(TestToken.now)
        let old = SigningKey.es256("old")
        let new = SigningKey.edDSA("new")
        try await KeyServer.run(.body(try keySet([old.member()]))) { server in
            let tokens = try await Self.tokens(place, server, clock)
            let oldToken = try Self.token(by: old, at: clock)
            #expect(try await tokens.user(oldToken).id == "acme|248289")
            #expect(server.requests == 1)
            server.answer(.body(try keySet([new.member()])))
            clock.advance(seconds: 60)
            #expect(try await tokens.user(try Self.token(by: new, at: clock)).id == "acme|248289")
            #expect(server.requests == 2)
            // It was verified before; its key is gone.
            #expect(try await refusal(of: oldToken, by: tokens) == .unknownKey)
        }
    }

    @Test func `tokens of invented keys cause one request a minute`() async throws {
        let place = try Place()
        let clock = TestClock(TestToken.now)
        let key = SigningKey.es256()
        try await KeyServer.run(.body(try keySet([key.member()]))) { server in
            let tokens = try await Self.tokens(place, server, clock)
            for minute in 1...3 {
                clock.advance(seconds: 60)
                for number in 1...20 {
                    let token = try Self.token(by: .es256("invented\(number)"), at: clock)
                    #expect(try await refusal(of: token, by: tokens) == .unknownKey)
                }
                #expect(server.requests == 1 + minute)
            }
        }
    }

    @Test func `a hundred requests with a new key wait for one fetch`() async throws {
        let place = try Place()
        let clock = TestClock(TestToken.now)
        let old = SigningKey.es256("old")
        let new = SigningKey.es256("new")
        try await KeyServer.run(.body(try keySet([old.member()]))) { server in
            let tokens = try await Self.tokens(place, server, clock)
            server.answer(.held(try keySet([old.member(), new.member()])))
            clock.advance(seconds: 60)
            let token = try Self.token(by: new, at: clock)
            let users = try await withThrowingTaskGroup(of: String.self) { tasks in
                for _ in 0..<100 { tasks.addTask { try await tokens.user(token).id } }
                await server.arrival(of: 2)
                server.release()
                return try await tasks.reduce(into: [String]()) { $0.append($1) }
            }
            #expect(users == Array(repeating: "acme|248289", count: 100))
            #expect(server.requests == 2)
        }
    }

    @Test func `keys are fetched again each hour, and a withdrawn key does not outlive it`() async throws {
        let place = try Place()
        let clock = TestClock(TestToken.now)
        let old = SigningKey.es256("old")
        let new = SigningKey.es256("new")
        try await KeyServer.run(.body(try keySet([old.member(), new.member()]))) { server in
            let tokens = try await Self.tokens(place, server, clock)
            let token = try Self.token(by: old, at: clock)
            #expect(try await refusal(of: token, by: tokens) == nil)
            server.answer(.body(try keySet([new.member()])))
            clock.advance(seconds: 3_599)
            #expect(await tokens.refreshKeys() == [])
            #expect(server.requests == 1)
            clock.advance(seconds: 1)
            #expect(await tokens.refreshKeys() == [])
            #expect(server.requests == 2)
            #expect(try await refusal(of: token, by: tokens) == .unknownKey)
        }
    }

    @Test func `while the provider is down its keys stay in use for a day, and then nobody is let in`() async throws {
        let place = try Place()
        let clock = TestClock(TestToken.now)
        let key = SigningKey.es256()
        try await KeyServer.run(.body(try keySet([key.member()]))) { server in
            let tokens = try await Self.tokens(place, server, clock)
            let early = try Self.token(by: key, at: clock)
            #expect(try await refusal(of: early, by: tokens) == nil)
            server.answer(.status("503 Service Unavailable"))
            clock.advance(seconds: 86_399)
            #expect(await tokens.refreshKeys() == ["acme"])
            #expect(try await refusal(of: early, by: tokens) == nil)
            let late = try Self.token(by: key, at: clock)
            #expect(try await refusal(of: late, by: tokens) == nil)
            // An unknown key may be one that the server could not fetch: a device must not sign out for it.
            let unknown = try Self.token(by: .es256("new"), at: clock)
            #expect(await Self.code { _ = try await tokens.user(unknown) } == .unavailable)
            clock.advance(seconds: 1)
            #expect(await Self.code { _ = try await tokens.user(late) } == .unavailable)
            // The provider is back.
            server.answer(.body(try keySet([key.member()])))
            clock.advance(seconds: 60)
            #expect(try await refusal(of: late, by: tokens) == nil)
        }
    }

    /// Answers that are no key set.
    static let badAnswers: [(name: String, answer: KeyServer.Answer)] = [
        ("an error", .status("500 Internal Server Error")),
        ("a redirect", .status("302 Found", headers: ["Location: https://evil.example/keys"])),
        ("nothing", .body([])), ("a page", .body(Array("<html>".utf8))),
        ("no list", .body(Array(#"{"keys":{}}"#.utf8))), ("no keys", .body(Array(#"{"keys":[]}"#.utf8))),
        ("more than a megabyte", .body(Array(repeating: UInt8(ascii: " "), count: FetchKeys.bytesMax + 1))),
        ("101 keys", .body(Array("{\"keys\":[\(Array(repeating: "{}", count: 101).joined(separator: ","))]}".utf8))),
        ("silence", .silence),
    ]

    @Test(arguments: badAnswers.map(\.name)) func `a bad answer leaves the former keys in use`(name: String)
        async throws
    {
        let place = try Place()
        let clock = TestClock(TestToken.now)
        let key = SigningKey.es256()
        let bad = try #require(Self.badAnswers.first { $0.name == name }).answer
        try await KeyServer.run(.body(try keySet([key.member()]))) { server in
            // Only a provider that never answers is waited for so long.
            let patience = name == "silence" ? Duration.milliseconds(200) : .seconds(30)
            let tokens = try await Self.tokens(place, server, clock, patience: patience)
            server.answer(bad)
            clock.advance(seconds: 3_600)
            #expect(await tokens.refreshKeys() == ["acme"])
            #expect(server.requests == 2)
            #expect(try await refusal(of: try Self.token(by: key, at: clock), by: tokens) == nil)
            server.answer(.body(try keySet([key.member()])))
            clock.advance(seconds: 60)
            #expect(await tokens.refreshKeys() == [])
        }
    }

    @Test(arguments: badAnswers.map(\.name)) func `a server does not start without a usable key, and says why`(
        name: String
    ) async throws {
        let place = try Place()
        let clock = TestClock(TestToken.now)
        let bad = try #require(Self.badAnswers.first { $0.name == name }).answer
        try await KeyServer.run(bad) { server in
            let patience = name == "silence" ? Duration.milliseconds(200) : .seconds(30)
            do {
                _ = try await Self.tokens(place, server, clock, patience: patience)
                Issue.record("it started")
            } catch {
                let error = try #require(error as? TidemarkError)
                #expect(error.code == .unavailable)
                #expect(error.message.contains("acme") && error.message.contains(server.url))
            }
        }
    }

    @Test func `a server whose provider is not there does not start`() async throws {
        let place = try Place()
        let clock = TestClock(TestToken.now)
        try await KeyServer.run(.body([])) { server in
            let url = server.url
            try await server.close()
            let provider = place.provider(.url(url))
            let code = await Self.code { _ = try await ProviderTokens([provider], now: clock.now) }
            #expect(code == .unavailable)
        }
    }

    @Test func `keys come over https or from this machine only`() {
        for url in ["https://login.example.org/keys", "http://localhost:1/k", "http://127.0.0.1/k", "http://[::1]:2/k"]
        {
            #expect(FetchKeys.isSafe(url), "\(url)")
        }
        for url in [
            "http://login.example.org/keys", "http://127.0.0.1.example.org/k", "file:///etc/passwd",
            "ftp://localhost/k",
            "https://user:secret@login.example.org/k", "https://", "keys.json",
        ] { #expect(!FetchKeys.isSafe(url), "\(url)") }
    }
}
