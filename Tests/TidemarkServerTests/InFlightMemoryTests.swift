import NIOCore
import NIOPosix
import Synchronization
import Testing
import TidemarkCore
import TidemarkGzip

@testable import TidemarkServer

/// Rule 21: memory for requests and answers in flight has one bound, tested with real requests over
/// HTTP.
@Suite struct InFlightMemoryTests {
    private static let mebibyte = 1 << 20

    /// One of the 8 MiB is reserved for small requests; a body takes at most 2.
    private var limits: Limits {
        var limits = Limits.standard
        limits.requestBytesMax = Self.mebibyte
        limits.inFlightBytesMax = 8 * Self.mebibyte
        return limits
    }

    @Test func `thirty small gzip bodies that expand together stay within one memory budget`() async throws {
        let bomb = gzip([UInt8](repeating: 32, count: Self.mebibyte), level: 9)
        let registry = PrometheusRegistry()
        let crowd = Crowd(count: 30)
        let service = ScriptedService { _, body in
            guard body.count > 100 else { return body }
            crowd.arrived(holding: try Self.held(registry))
            await crowd.everybody()
            return Array("{}".utf8)
        }
        #expect(bomb.count < 2_000)
        try await TestServer.run(service, limits: limits, registry: registry) { server in
            var smallRefusals = 0
            let answers = try await withThrowingTaskGroup(of: TestServer.Answer.self) { tasks in
                for _ in 0..<30 {
                    tasks.addTask {
                        let answer = try await server.send(
                            .POST, "/sync", headers: ["Content-Encoding": "gzip"], body: .bytes(ByteBuffer(bytes: bomb))
                        )
                        if answer.status != 200 { crowd.arrived(holding: 0) }
                        return answer
                    }
                }
                // The large requests are held until all thirty have arrived or were refused; this one is not. It is
                // refused only while one that is going to be refused expands.
                while true {
                    let small = try await server.send(.POST, "/sync", body: .bytes(.init(string: "{}")))
                    if small.status == 200 { break }
                    try #require(small.status == 503)
                    smallRefusals += 1
                }
                return try await tasks.reduce(into: []) { $0.append($1) }
            }
            let refusals = answers.filter { $0.status == 503 }
            let accepted = answers.filter { $0.status == 200 }
            #expect((1...3).contains(accepted.count))
            #expect(accepted.count + refusals.count == 30)
            for answer in refusals {
                #expect(answer.headers.first(name: "Retry-After") == "5")
                #expect(try answer.error.code == .unavailable)
                #expect(try answer.error.message.contains("8 MiB of memory"))
            }
            #expect(crowd.bytesPeak >= 2 * Self.mebibyte)
            #expect(crowd.bytesPeak <= 8 * Self.mebibyte)
            try await Self.untilNothingIsHeld(registry, server)
            let page = try PrometheusPage(registry.text())
            #expect(page.value("tidemark_in_flight_refusals_total") == Double(refusals.count + smallRefusals))
        }
    }

    @Test(arguments: [
        "POST /sync HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900000\r\n\r\n",
        "POST /fingerprints HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900000\r\n\r\n",
    ]) func `an aborted upload returns its memory`(head: String) async throws {
        let registry = PrometheusRegistry()
        try await TestServer.run(ScriptedService(), limits: limits, registry: registry) { server in
            let half = String(repeating: " ", count: 500_000)
            let channel = try await server.connectWithoutReading(sending: head + half)
            try await Self.until(server) { try Self.held(registry) >= 1_000_000 }
            try await channel.close()
            try await Self.untilNothingIsHeld(registry, server)
        }
    }

    @Test func `unread answers count, and the next large one waits outside the budget`() async throws {
        // More than the system's buffers of a connection hold.
        let large = noise(count: 24 * Self.mebibyte)
        var limits = limits
        limits.inFlightBytesMax = 32 * Self.mebibyte
        let service = ScriptedService { _, body in body.count == 3 ? large : Array("{}".utf8) }
        let registry = PrometheusRegistry()
        try await TestServer.run(service, limits: limits, registry: registry) { server in
            let channel = try await server.connectWithoutReading(
                sending: "POST /sync HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\n123")
            try await Self.until(server) { try Self.held(registry) >= 2 * Self.mebibyte }
            let post = { @Sendable (bytes: Int) in
                let body = ByteBuffer(repeating: 32, count: bytes)
                return try await server.send(.POST, "/sync", body: .bytes(body))
            }
            let refusal = try await post(3)
            let held = try Self.held(registry)
            #expect(refusal.status == 503, "\(refusal.body.count) bytes, \(held) held, active \(channel.isActive)")
            #expect(refusal.headers.first(name: "Retry-After") == "5")
            #expect(try refusal.error.code == .unavailable)
            // Small requests get through, and so does the largest body.
            #expect(try await post(4).status == 200)
            #expect(try await post(Self.mebibyte).status == 200)
            try await channel.close()
            try await Self.untilNothingIsHeld(registry, server)
            #expect(try await post(3).body.count == large.count + 1)
            try await Self.untilNothingIsHeld(registry, server)
        }
    }

    @Test func `refused requests and failing services return their memory`() async throws {
        let service = ScriptedService { _, _ in
            throw TidemarkError(.storageFailed, "The disk is full.", fix: "Make room.")
        }
        let registry = PrometheusRegistry()
        try await TestServer.run(service, limits: limits, registry: registry) { server in
            for (bytes, status) in [(900_000, 503), (Self.mebibyte + 1, 413)] {
                let body = ByteBuffer(repeating: 32, count: bytes)
                let answer = try await server.send(.POST, "/sync", body: .bytes(body))
                #expect(answer.status == status)
                try await Self.untilNothingIsHeld(registry, server)
            }
            let damaged = gzip([UInt8](repeating: 32, count: 500_000)).dropLast(4)
            let answer = try await server.send(
                .POST, "/sync", headers: ["Content-Encoding": "gzip"], body: .bytes(ByteBuffer(bytes: damaged)))
            #expect(answer.status == 400)
            try await Self.untilNothingIsHeld(registry, server)
        }
    }

    @Test func `a server with a budget below its largest request does not start`() async throws {
        var limits = limits
        limits.inFlightBytesMax = 2 * Self.mebibyte
        let error = await #expect(throws: TidemarkError.self) {
            let application = TidemarkServerApplication(
                service: ScriptedService(), port: 0, limits: limits, logger: LogLines().logger)
            try await application.run(stopsOnSignals: false)
        }
        #expect(error?.code == .invalidArgument)
        #expect(error?.fix.contains("at least 3 MiB") == true)
    }

    // MARK: Support

    private static func held(_ registry: PrometheusRegistry) throws -> Int {
        let page = try PrometheusPage(registry.text())
        return Int(try #require(page.value("tidemark_in_flight_bytes")))
    }

    private static func untilNothingIsHeld(_ registry: PrometheusRegistry, _ server: TestServer) async throws {
        try await until(server) { try held(registry) == 0 }
    }

    /// Sends a small request again and again until a condition holds.
    private static func until(_ server: TestServer, _ condition: () throws -> Bool) async throws {
        while try !condition() { try #require(try await server.send(.GET, "/healthz").status == 200) }
    }
}

/// Requests that are held until each of them has arrived or was refused.
private final class Crowd: Sendable {
    private struct State {
        var missing: Int
        var bytesPeak = 0
        var waiters: [CheckedContinuation<Void, Never>] = []
    }

    private let state: Mutex<State>

    init(count: Int) { state = Mutex(State(missing: count)) }

    /// The maximum of bytes held at the arrival of a request.
    var bytesPeak: Int { state.withLock { $0.bytesPeak } }

    func arrived(holding bytes: Int) {
        let waiters = state.withLock { state in
            state.missing -= 1
            state.bytesPeak = max(state.bytesPeak, bytes)
            guard state.missing == 0 else { return [CheckedContinuation<Void, Never>]() }
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    func everybody() async {
        await withCheckedContinuation { continuation in
            let isComplete = state.withLock { state in
                guard state.missing > 0 else { return true }
                state.waiters.append(continuation)
                return false
            }
            if isComplete { continuation.resume() }
        }
    }
}
