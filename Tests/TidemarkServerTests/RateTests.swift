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
        private let known = Mutex<Set<String>>([])

        var looked: Int { looks.withLock { $0 } }

        func caller(token: String?) async throws -> Caller {
            guard let token else { return .anonymous }
            looks.withLock { $0 += 1 }
            guard token.hasPrefix("good") else {
                throw TidemarkError(.signInNeeded, "The token is not valid.", fix: "Send a valid one.")
            }
            known.withLock { _ = $0.insert(token) }
            return .user(Caller.User(id: token, device: token == "good-d" ? "phone" : nil))
        }

        func remembers(token: String) -> Bool { known.withLock { $0.contains(token) } }

        func access(to zone: String, token: String?, admitting admit: @Sendable (Caller) throws -> Void) async throws
            -> ZoneAccess
        {
            let caller = try await caller(token: token)
            try admit(caller)
            return ZoneAccess(zone: zone, caller: caller, role: .writer)
        }

        func moment() async throws -> AccessMoment { AccessMoment(time: 0, version: 0) }

        func confirm(_ access: ZoneAccess, token: String?) async throws {}
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
        _ change: (inout RateLimits) -> Void = { _ in }, random: Double = 0,
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
                    .POST, "/sync", headers: Self.headers("good"), body: .bytes(ByteBuffer(string: "{}")))
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

    @Test func `digests and comparisons of parts of tables count as expensive, too`() async throws {
        let limit: (inout RateLimits) -> Void = { $0[.snapshotsPerDevice] = RateLimits.Rate(perMinute: 1, burst: 2) }
        try await Self.run(limit) { server, _, _, _ in
            let body = HTTPClientRequest.Body.bytes(ByteBuffer(string: "{}"))
            for (method, path) in [(HTTPMethod.GET, "/digest"), (.GET, "/zones/a/digest"), (.POST, "/compare/t")] {
                let token = "good\(method)\(path.hasPrefix("/zones") ? "zone" : "")"
                let ask = { @Sendable in
                    let sent = method == .POST ? body : nil
                    return try await server.send(method, path, headers: Self.headers(token), body: sent).status
                }
                let statuses = [try await ask(), try await ask(), try await ask()]
                #expect(statuses.map { $0 == 429 } == [false, false, true], "\(path)")
            }
        }
    }

    @Test func `a device that no token proves shares the snapshots of its user, whatever it calls itself`() async throws
    {
        let limit: (inout RateLimits) -> Void = { $0[.snapshotsPerDevice] = RateLimits.Rate(perMinute: 1, burst: 2) }
        try await Self.run(limit) { server, _, _, _ in
            let get = { @Sendable (token: String?, device: String) in
                let headers = token.map(Self.headers) ?? [:]
                return try await server.send(.GET, "/snapshot?device=\(device)", headers: headers).status
            }
            for token in ["good", nil] {
                var refused: [Bool] = []
                for device in ["a", "b", "c", "d", "a"] { refused.append(try await get(token, device) == 429) }
                #expect(refused == [false, false, true, true, true])
            }
            // The device of a token has snapshots of its own.
            #expect(try await get("good-d", "c") != 429)
        }
    }

    @Test func `bodies of every method count`() async throws {
        let limit: (inout RateLimits) -> Void = {
            $0[.uploadBytesPerUser] = RateLimits.Rate(perMinute: 60_000, burst: 1_000)
        }
        try await Self.run(limit) { server, _, _, _ in
            for method in [HTTPMethod.PUT, .PATCH] {
                let send = { @Sendable in
                    var headers = Self.headers("good\(method)")
                    headers.add(name: "If-Match", value: "*")
                    headers.add(name: "Content-Type", value: "application/json")
                    let body = HTTPClientRequest.Body.bytes(ByteBuffer(repeating: UInt8(ascii: " "), count: 600))
                    return try await server.send(method, "/tables/t/1", headers: headers, body: body).status
                }
                let statuses = [try await send(), try await send()]
                #expect(statuses.map { $0 == 429 } == [false, true], "\(method)")
            }
        }
    }

    @Test func `an announced length costs nothing until bytes arrive, and one beyond every limit is refused`()
        async throws
    {
        let limit: (inout RateLimits) -> Void = {
            $0[.uploadBytesPerUser] = RateLimits.Rate(perMinute: 60_000, burst: 1_000)
        }
        try await Self.run(limit) { server, service, _, _ in
            let head = "POST /sync HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer good\r\n"
            for length in ["9223372036854775807", "90000000"] {
                let wait = "Expect: 100-continue\r\nContent-Length: \(length)\r\n\r\n"
                let answer = try await server.exchange(head + wait, until: "}\n")
                #expect(answer.hasPrefix("HTTP/1.1 413 "), "\(answer)")
            }
            for _ in 1...20 { try await server.send(head + "Content-Length: 900\r\n\r\n") }
            let body = HTTPClientRequest.Body.bytes(ByteBuffer(repeating: UInt8(ascii: "x"), count: 900))
            let honest = try await server.send(.POST, "/sync", headers: Self.headers("good"), body: body)
            #expect(honest.status == 200)
            #expect(service.calls.map(\.body.count) == [900])
        }
    }

    @Test func `a body without a stated length ends when its sender owes a burst, and the debt is no larger`()
        async throws
    {
        let limit: (inout RateLimits) -> Void = {
            $0[.uploadBytesPerUser] = RateLimits.Rate(perMinute: 60_000, burst: 1_000)
        }
        try await Self.run(limit) { server, service, _, time in
            let pieces = AsyncStream { continuation in
                for _ in 1...50 { continuation.yield(ByteBuffer(repeating: UInt8(ascii: "x"), count: 600)) }
                continuation.finish()
            }
            let long = try await server.send(
                .POST, "/sync", headers: Self.headers("good"), body: .stream(pieces, length: .unknown))
            #expect(long.status == 429)
            #expect(service.calls.isEmpty)
            // A burst is due in a second, so a debt of one ends after another.
            time.advance(by: 2_000)
            let body = HTTPClientRequest.Body.bytes(ByteBuffer(repeating: UInt8(ascii: "x"), count: 900))
            #expect(try await server.send(.POST, "/sync", headers: Self.headers("good"), body: body).status == 200)
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
            #expect(try await get("/schema", "good2").status == 200)
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
            // A token that the server remembers is none that a stranger tries.
            #expect(try await get("/schema", "good2").status == 200)
            // Without a token there is nothing to guess.
            #expect(try await server.send(.GET, "/schema").status == 200)
            #expect(try await server.send(.GET, "/healthz", headers: Self.headers("bad")).status == 200)
            time.advance(by: 6_000)
            #expect(try await get("/schema", "good").status == 200)
        }
    }

    @Test(arguments: [("X-Forwarded-For", "192.0.2.1"), ("Via", "1.1 proxy")])
    func `a server with limits says once that a proxy hides its clients`(name: String, value: String) async throws {
        try await Self.run { server, _, _, _ in
            _ = try await server.send(.GET, "/schema")
            #expect(!server.log.all.contains { $0.contains("--behind-proxy") })
            for _ in 1...3 { _ = try await server.send(.GET, "/schema", headers: [name: value]) }
            #expect(server.log.all.filter { $0.hasPrefix("warning") && $0.contains("--behind-proxy") }.count == 1)
        }
        try await TestServer.run(ScriptedService()) { server in
            _ = try await server.send(.GET, "/schema", headers: [name: value])
            #expect(
                !server.log.all.contains { $0.contains("--behind-proxy") }, "a server without limits has none to share")
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
