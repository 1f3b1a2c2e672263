import Foundation
import NIOConcurrencyHelpers
import Testing
import Tidemark
import TidemarkCore
import TidemarkGzip
import TidemarkEngine
import TidemarkTestSupport

/// The device's HTTP client against the server, and the failures between them.
@Suite struct TransportTests {
    private let request = Array(#"{"maxRevision":0,"changeSets":[]}"#.utf8)

    @Test func `A14: messages above a kilobyte are compressed in both directions`() async throws {
        let long = Array(#"{"note":"\#(String(repeating: "tide", count: 300_000))"}"#.utf8)
        let service = ScriptedService()
        try await TestServer.run(service) { server in
            let relay = TCPRelay(targetPort: server.port)
            let transport = try HTTPTransport(url: "http://127.0.0.1:\(try await relay.start())")
            #expect(try await transport.sync(zone: "main", body: long) == long)
            #expect(relay.traffic.bytesUp < 20_000)
            #expect(relay.traffic.bytesDown < 20_000)
            try await relay.stop()
        }
        #expect(service.calls == [ScriptedService.Call(zone: "main", body: long)])
    }

    @Test(arguments: ["main", "team-a", "nö / 50 %?#&", "../main", "🌊"])
    func `a zone's name is encoded and arrives unchanged`(zone: String) async throws {
        let service = ScriptedService()
        try await TestServer.run(service) { server in
            let transport = try HTTPTransport(url: server.url + "/")
            _ = try await transport.sync(zone: zone, body: request)
            let digest = try await transport.digest(zone: zone)
            #expect(digest == ScriptedService.digest(of: zone))
        }
        #expect(service.calls.map(\.zone) == [zone])
    }

    @Test(.timeLimit(.minutes(30))) func `64 files of one process sync with one server without waiting for each other`()
        async throws
    {
        let meeting = Meeting(of: 64)
        let service = ScriptedService { _, body in
            await meeting.attend()
            return body
        }
        try await TestServer.run(service) { server in
            try await withThrowingTaskGroup { group in
                for _ in 1...64 {
                    group.addTask {
                        let transport = try HTTPTransport(url: server.url)
                        #expect(try await transport.sync(zone: "main", body: request) == request)
                    }
                }
                try await group.waitForAll()
            }
        }
        #expect(service.calls.count == 64)
    }

    @Test func `the server's errors reach the device unchanged`() async throws {
        let thrown = TidemarkError(
            .unknownColumn, "Table cities has no column nmae.", fix: "Write name.",
            place: .init(changeSet: 3, id: "c0ffee", table: "cities", key: "12", column: "nmae"))
        try await TestServer.run(ScriptedService { _, _ in throw thrown }) { server in
            let transport = try HTTPTransport(url: server.url)
            await #expect(throws: thrown) { try await transport.sync(zone: "main", body: request) }
        }
    }

    @Test func `a request above the server's limit gets a 413, not a broken connection`() async throws {
        var limits = Limits.standard
        limits.requestBytesMax = 100_000
        try await TestServer.run(ScriptedService(), limits: limits) { server in
            let transport = try HTTPTransport(url: server.url)
            let error = await #expect(throws: TidemarkError.self) {
                try await transport.sync(zone: "main", body: noise(count: 8 << 20))
            }
            #expect(error?.code == .tooLarge, "\(error?.description ?? "")")
        }
    }

    @Test(arguments: [1_000, 1_000_000]) func `an answer above the device's limit is refused before it fills memory`(
        bytes: Int
    ) async throws {
        var limits = Limits.standard
        limits.responseBytesMax = 900
        let answer = Array(#"{"a":"\#(String(repeating: "a", count: bytes))"}"#.utf8)
        try await TestServer.run(ScriptedService { _, _ in answer }) { [limits] server in
            let transport = try HTTPTransport(url: server.url, limits: limits)
            let error = await #expect(throws: TidemarkError.self) {
                try await transport.sync(zone: "main", body: request)
            }
            #expect(error?.code == .invalidResponse, "the request's change sets are not at fault")
            #expect(error?.message.contains("900 bytes") == true)
        }
    }

    @Test func `a cancelled sync ends as cancelled, not as a network failure`() async throws {
        let arrived = AsyncStream.makeStream(of: Void.self)
        let service = ScriptedService { _, body in
            arrived.continuation.yield()
            let forever = AsyncStream<Void> { _ in }
            for await _ in forever {}
            return body
        }
        try await TestServer.run(service) { server in
            let transport = try HTTPTransport(url: server.url)
            let sync = Task { try await transport.sync(zone: "main", body: request) }
            for await _ in arrived.stream { break }
            sync.cancel()
            await #expect(throws: CancellationError.self) { try await sync.value }
        }
    }

    @Test(arguments: [
        "localhost:8080", "ftp://example.com", "", "http://", "http:///sync", "https://a?zone=b", "http://a#b",
        "http://a:99999", "sync.example.com", "http://anna:hunter2@example.com",
    ]) func `an invalid server URL is refused with an example`(url: String) {
        let error = #expect(throws: TidemarkError.self) { try HTTPTransport(url: url) }
        #expect(error?.code == .invalidArgument)
        #expect(error?.fix.contains("http://localhost:8080") == true)
        #expect(error?.description.contains("hunter2") == false)
    }
}

/// Other programs that answer on the server's port.
@Suite struct ForeignAnswerTests {
    private let request = Array("{}".utf8)

    @Test(arguments: [
        ("200 OK", ["Content-Type: text/html"], "<html>Welcome to the hotel</html>", "text/html"),
        ("200 OK", ["Content-Type: application/json"], "[1,2]", "JSON object"),
        ("200 OK", ["Content-Type: application/json"], "", "JSON object"),
        ("200 OK", ["Content-Type: application/json", "Content-Encoding: br"], "{}", "encoding br"),
        ("200 OK", ["Content-Type: application/json", "Content-Encoding: gzip"], "{}", "damaged gzip"),
        ("502 Bad Gateway", ["Content-Type: text/html"], "<h1>nginx</h1>", "A proxy is there"),
        ("503 Service Unavailable", [], "", "A proxy is there"),
        ("302 Found", ["Location: http://login.example/"], "", "http://login.example/"),
        ("511 Network Authentication Required", [], "", "wants a login"),
        (
            "400 Bad Request", ["Content-Type: text/html"], "The plain HTTP request was sent to HTTPS port",
            "begin it with https://"
        ), ("404 Not Found", ["Content-Type: application/json"], #"{"error":"no"}"#, "404 Not Found"),
        ("204 No Content", [], "", "204"),
    ]) func `a page of another program is never taken for an answer`(
        status: String, headers: [String], content: String, hint: String
    ) async throws {
        try await CannedServer.run(status: status, headers: headers, content: content) { server in
            let transport = try HTTPTransport(url: server.url)
            let error = await #expect(throws: TidemarkError.self) {
                try await transport.sync(zone: "main", body: request)
            }
            #expect(error?.code == .invalidResponse)
            #expect(error?.recovery == .retry)
            #expect(error?.description.contains(hint) == true, "\(error?.description ?? "")")
            #expect(error?.message.contains("127.0.0.1:") == true)
        }
    }

    @Test(arguments: ["SSH-2.0-OpenSSH_9.2\r\n", "\u{15}\u{3}\u{1}\u{0}\u{2}\u{2}F"])
    func `a server of another kind and no server have distinct errors`(greeting: String) async throws {
        try await CannedServer.run(Array(greeting.utf8)) { server in
            let transport = try HTTPTransport(url: server.url)
            let error = await #expect(throws: TidemarkError.self) {
                try await transport.sync(zone: "main", body: request)
            }
            #expect(error?.code == .invalidResponse)
            #expect(error?.message.contains("something else than HTTP") == true)
            #expect(error?.fix.contains("https://") == true)
        }
    }

    @Test(arguments: [
        "", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"a\":",
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + "5\r\n{\"a\":\r\n",
        "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 100\r\n\r\n<html>",
    ]) func `an interrupted answer is a broken connection, whatever its first bytes`(answer: String) async throws {
        try await CannedServer.run(Array(answer.utf8)) { server in
            let transport = try HTTPTransport(url: server.url)
            let error = await #expect(throws: TidemarkError.self) {
                try await transport.sync(zone: "main", body: request)
            }
            #expect(error?.code == .unreachable)
            #expect(error?.message.contains("cut") == true, "\(error?.message ?? "")")
        }
    }

    @Test func `the error for an unreachable server names host, port and reason`() async throws {
        let relay = TCPRelay(targetPort: 1)
        let port = try await relay.start()
        try await relay.stop()
        let transport = try HTTPTransport(url: "http://localhost:\(port)")
        let error = await #expect(throws: TidemarkError.self) { try await transport.digest(zone: "main") }
        #expect(error?.code == .unreachable)
        #expect(error?.message == "Cannot reach localhost:\(port): Connection refused.")
    }

    @Test func `TLS to a server without TLS gives a readable error`() async throws {
        try await TestServer.run(ScriptedService()) { server in
            let transport = try HTTPTransport(url: "https://127.0.0.1:\(server.port)")
            let error = await #expect(throws: TidemarkError.self) { try await transport.digest(zone: "main") }
            #expect(error?.code == .unreachable)
            let place = "127.0.0.1:\(server.port)"
            #expect(error?.message == "Cannot reach \(place): it speaks no TLS there.")
            #expect(error?.fix.hasPrefix("Did you mean http://\(place)?") == true)
        }
    }

    @Test(arguments: ["\u{15}\u{3}\u{3}\u{0}\u{2}\u{2}F", ""])
    func `a failed TLS handshake gives an error without paths of the build machine`(answer: String) async throws {
        try await CannedServer.run(Array(answer.utf8), afterHead: false) { server in
            let transport = try HTTPTransport(url: "https://127.0.0.1:\(server.port)")
            let error = await #expect(throws: TidemarkError.self) { try await transport.digest(zone: "main") }
            #expect(error?.code == .unreachable)
            #expect(error?.description.contains("TLS") == true, "\(error?.message ?? "")")
            for word in [".build", ".cc", "BoringSSL", "OPENSSL"] {
                #expect(error?.description.contains(word) == false, "\(error?.message ?? "")")
            }
        }
    }
}

/// Holds requests until all of them have arrived, or one gives up.
private final class Meeting: Sendable {
    private let size: Int
    private let waiting = NIOLockedValueBox<[CheckedContinuation<Void, Never>]>([])

    init(of size: Int) { self.size = size }

    func attend() async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isComplete = waiting.withLockedValue { waiting in
                    waiting.append(continuation)
                    return waiting.count == size
                }
                if isComplete { end() }
            }
        } onCancel: {
            end()
        }
    }

    private func end() {
        let all = waiting.withLockedValue { waiting in
            defer { waiting = [] }
            return waiting
        }
        for continuation in all { continuation.resume() }
    }
}
