import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import Synchronization
import Testing
import TidemarkCore
import TidemarkEngine

@testable import TidemarkServer

/// Limits on requests over real HTTP, in virtual time.
@Suite struct RateTests {
    /// A gate that knows the token `good`, and counts the tokens that it looks at.
    private final class CountingGate: AccessGate {
        private let looks = Mutex(0)

        var looked: Int { looks.withLock { $0 } }

        func caller(token: String?) async throws -> Caller {
            guard let token else { return .anonymous }
            looks.withLock { $0 += 1 }
            guard token.hasPrefix("good") else {
                throw TidemarkError(.signInNeeded, "The token is not valid.", fix: "Send a valid one.")
            }
            return .user(Caller.User(id: token, device: token == "good-d" ? "phone" : nil))
        }

        func access(
            to zone: String,
            token: String?,
            admitting admit: @Sendable (Caller) throws -> Void
        ) async throws -> ZoneAccess {
            let caller = try await caller(token: token)
            try admit(caller)
            return ZoneAccess(zone: zone, caller: caller, role: .reader)
        }

        func moment() async throws -> AccessMoment { AccessMoment(time: 0, version: 0) }

        func stillAdmits(_ access: ZoneAccess, token: String?) async throws -> Bool { true }
    }

    private final class Time: Sendable {
        private let milliseconds = Mutex<Int64>(0)

        var now: @Sendable () -> Int64 { { [self] in milliseconds.withLock { $0 } } }

        func advance(by duration: Int64) { milliseconds.withLock { $0 += duration } }
    }

    /// Ten refused tokens a minute from one address.
    private static let tenFailures: @Sendable (inout RateLimits) -> Void = {
        $0[.failedSignInsPerAddress] = RateLimits.Rate(perMinute: 10, burst: 10)
    }

    private static func run(
        _ change: (inout RateLimits) -> Void = { _ in },
        random: Double = 0,
        body: @escaping @Sendable (TestServer, ScriptedService, CountingGate, Time) async throws -> Void
    ) async throws {
        var limits = RateLimits.standard
        change(&limits)
        let service = ScriptedService()
        let gate = CountingGate()
        let time = Time()
        let rates = RequestRates(limits, now: time.now, random: { random })
        try await TestServer.run(service, gate: gate, rates: rates) { server in
            try await body(server, service, gate, time)
        }
    }

    private static func headers(_ token: String) -> HTTPHeaders { ["Authorization": "Bearer \(token)"] }

    @Test func `one request too many is refused with the pause, before its body is read`() async throws {
        let limit: (inout RateLimits) -> Void = { $0[.requestsPerUser] = RateLimits.Rate(perMinute: 6, burst: 2) }
        try await Self.run(limit) { server, service, _, time in
            let post = { @Sendable in
                try await server.send(
                    .POST,
                    "/sync",
                    headers: Self.headers("good"),
                    body: .bytes(ByteBuffer(string: "{}"))
                )
            }
            #expect(try await post().status == 200)
            #expect(try await post().status == 200)
            let refusal = try await post()
            #expect(refusal.status == 429)
            #expect(refusal.headers.first(name: "Retry-After") == "10")
            let error = try refusal.error
            #expect(error.code == .rateLimited && error.recovery == .retry)
            #expect(service.calls.count == 2)
            let other = try await server.send(.GET, "/schema", headers: Self.headers("good2"))
            #expect(other.status == 200)
            time.advance(by: 9_999)
            #expect(try await post().status == 429)
            time.advance(by: 1)
            #expect(try await post().status == 200)
        }
    }

    @Test func `the pause is longer by up to a quarter, so that the refused do not return all at once`() async throws {
        let limit: (inout RateLimits) -> Void = { $0[.requestsPerUser] = RateLimits.Rate(perMinute: 1, burst: 1) }
        try await Self.run(limit, random: 0.999) { server, _, _, _ in
            _ = try await server.send(.GET, "/schema", headers: Self.headers("good"))
            let refusal = try await server.send(.GET, "/schema", headers: Self.headers("good"))
            #expect(refusal.headers.first(name: "Retry-After") == "75")
        }
    }

    @Test func `devices of one user have limits of their own`() async throws {
        let limit: (inout RateLimits) -> Void = { $0[.requestsPerDevice] = RateLimits.Rate(perMinute: 1, burst: 1) }
        try await Self.run(limit) { server, _, _, _ in
            let get = { @Sendable (token: String, device: String) in
                try await server.send(.GET, "/schema?device=\(device)", headers: Self.headers(token)).status
            }
            let first = try await get("good", "a")
            #expect(first == 200)
            #expect(try await get("good", "b") == 200)
            #expect(try await get("good", "a") == 429)
            // The id of another user's device counts for its own user.
            #expect(try await get("good2", "a") == 200)
            // The device of a token counts, not the one that the request names.
            #expect(try await get("good-d", "x") == 200)
            #expect(try await get("good-d", "y") == 429)
        }
    }

    @Test func `snapshots and comparisons have a limit of their own`() async throws {
        let limit: (inout RateLimits) -> Void = { $0[.snapshotsPerDevice] = RateLimits.Rate(perMinute: 1, burst: 2) }
        try await Self.run(limit) { server, _, _, _ in
            let body = HTTPClientRequest.Body.bytes(ByteBuffer(string: "{}"))
            let compare = { @Sendable (path: String) in
                try await server.send(.POST, path, headers: Self.headers("good"), body: body).status
            }
            let first = try await compare("/fingerprints")
            #expect(first == 200)
            #expect(try await compare("/zones/other/fingerprints") == 200)
            #expect(try await compare("/fingerprints") == 429)
            #expect(try await server.send(.GET, "/snapshot", headers: Self.headers("good")).status == 429)
            #expect(try await compare("/sync") == 200)
        }
    }

    @Test func `uploads count by their bytes, with and without a stated length`() async throws {
        let limit: (inout RateLimits) -> Void = {
            $0[.uploadBytesPerUser] = RateLimits.Rate(perMinute: 60_000, burst: 1_000)
        }
        try await Self.run(limit) { server, service, _, time in
            let bytes = ByteBuffer(repeating: UInt8(ascii: "x"), count: 600)
            let post = { @Sendable (body: HTTPClientRequest.Body) in
                try await server.send(.POST, "/sync", headers: Self.headers("good"), body: body).status
            }
            let first = try await post(.bytes(bytes))
            #expect(first == 200)
            #expect(try await post(.bytes(bytes)) == 429)
            time.advance(by: 200)
            let pieces = AsyncStream { continuation in
                continuation.yield(bytes)
                continuation.finish()
            }
            #expect(try await post(.stream(pieces, length: .unknown)) == 200)
            #expect(service.calls.map(\.body.count) == [600, 600])
            #expect(try await post(.bytes(bytes)) == 429)
        }
    }

    @Test func `too many refused tokens: the address is refused without a look at its token`() async throws {
        try await Self.run(Self.tenFailures) { server, _, gate, time in
            let get = { @Sendable (path: String, token: String) in
                try await server.send(.GET, path, headers: Self.headers(token))
            }
            for _ in 1...10 { #expect(try await get("/sync", "bad").status == 401) }
            let looks = gate.looked
            for path in ["/sync", "/zones/x/schema", "/metrics"] {
                let refusal = try await get(path, "bad")
                #expect(refusal.status == 429, "\(path)")
                #expect(refusal.headers.first(name: "Retry-After") == "6")
            }
            for _ in 1...200 { _ = try await get("/sync", "bad") }
            #expect(try await get("/schema", "good").status == 429)
            #expect(gate.looked == looks)
            // Without a token there is nothing to guess.
            #expect(try await server.send(.GET, "/schema").status == 200)
            #expect(try await server.send(.GET, "/healthz", headers: Self.headers("bad")).status == 200)
            time.advance(by: 6_000)
            #expect(try await get("/schema", "good").status == 200)
        }
    }

    @Test func `a header that is no bearer token counts as a refused one`() async throws {
        try await Self.run(Self.tenFailures) { server, _, gate, _ in
            let basic: HTTPHeaders = ["Authorization": "Basic YTpi"]
            for _ in 1...10 {
                let refusal = try await server.send(.GET, "/sync", headers: basic)
                #expect(refusal.status == 401)
            }
            #expect(try await server.send(.GET, "/sync", headers: basic).status == 429)
            #expect(gate.looked == 0)
        }
    }

    @Test func `a server without limits limits nobody`() async throws {
        try await TestServer.run(ScriptedService()) { server in
            for _ in 1...300 {
                let answer = try await server.send(.GET, "/schema")
                #expect(answer.status == 200)
            }
        }
    }

    @Test(arguments: [
        ("192.0.2.1", "192.0.2.1"), ("::ffff:192.0.2.1", "192.0.2.1"), ("2001:db8:1:2:3:4:5:6", "32:1:13:184:0:1:0:2"),
        ("2001:db8:1:2::9", "32:1:13:184:0:1:0:2"),
    ]) func `an IPv6 client is known by the part of its address that it cannot choose`(address: String, name: String) {
        #expect(ClientNetwork.name(of: address) == name)
    }
}
