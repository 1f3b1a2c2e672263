import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import Testing
import TidemarkCore
import TidemarkGzip

/// Bodies that are too large, and the connections of their senders.
@Suite struct BodyLimitTests {
    private var limits: Limits {
        var limits = Limits.standard
        limits.requestBytesMax = 100_000
        return limits
    }

    @Test func `a body of exactly the limit passes, one byte more is refused`() async throws {
        let service = ScriptedService { _, body in Array("{\"bytes\":\(body.count)}".utf8) }
        try await TestServer.run(service, limits: limits) { server in
            let fits = try await server.send(.POST, "/sync", body: .bytes(ByteBuffer(repeating: 32, count: 100_000)))
            #expect(fits.text == "{\"bytes\":100000}\n")
            let tooLarge = try await server.send(
                .POST, "/sync", body: .bytes(ByteBuffer(repeating: 32, count: 100_001)))
            #expect(tooLarge.status == 413)
            #expect(try tooLarge.error.code == .tooLarge)
            #expect(try tooLarge.error.message.contains("100000 bytes"))
        }
        #expect(service.calls.count == 1)
    }

    @Test(arguments: [HTTPClientRequest.Body.Length.unknown, .known(Int64(1 << 20))])
    func `an oversized body is answered after its end, and the connection stays usable`(
        length: HTTPClientRequest.Body.Length
    ) async throws {
        let service = ScriptedService()
        try await TestServer.run(service, limits: limits) { server in
            let (upload, sending) = AsyncStream.makeStream(of: ByteBuffer.self)
            for _ in 0..<16 { sending.yield(ByteBuffer(repeating: 32, count: 64 << 10)) }
            sending.finish()
            let answer = try await server.send(.POST, "/sync", body: .stream(upload, length: length))
            #expect(answer.status == 413)
            #expect(answer.headers.first(name: "Connection") == nil)
            #expect(try answer.error.code == .tooLarge)
        }
        #expect(service.calls.isEmpty)
    }

    @Test func `an endless upload is answered and cut off`() async throws {
        let service = ScriptedService()
        try await TestServer.run(service, limits: limits) { server in
            var request = HTTPClientRequest(url: server.url + "/sync")
            request.method = .POST
            let endless = AsyncStream { ByteBuffer(repeating: 32, count: 64 << 10) }
            request.body = .stream(endless, length: .unknown)
            let response = try await HTTPClient.shared.execute(request, timeout: .minutes(10))
            #expect(response.status == .payloadTooLarge)
            #expect(response.headers.first(name: "Connection") == "close")
            let next = try await server.send(.GET, "/healthz")
            #expect(next.text == "ok\n")
        }
        #expect(service.calls.isEmpty)
    }

    @Test(arguments: ["99999999999", "\(Int64.max)", "9223372036854775808", "\(UInt64.max)"])
    func `a body that is announced longer than the server would drop is refused before it comes`(length: String)
        async throws
    {
        try await TestServer.run(ScriptedService(), limits: limits) { server in
            let answer = try await server.exchange(
                "POST /sync HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(length)\r\n\r\n{", until: "}\n")
            #expect(answer.hasPrefix("HTTP/1.1 413 "))
            #expect(answer.contains("Connection: close"))
        }
    }

    @Test func `Expect: 100-continue with an oversized body is refused before the upload`() async throws {
        try await TestServer.run(ScriptedService(), limits: limits) { server in
            let answer = try await server.exchange(
                "POST /sync HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n"
                    + "Expect: 100-continue\r\n\r\n", until: "}\n")
            #expect(answer.hasPrefix("HTTP/1.1 413 "))
            #expect(answer.contains("Connection: close"))
        }
    }

    @Test func `Expect: 100-continue is answered with 100, then with the result`() async throws {
        let head = "POST /sync HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n" + "Expect: 100-continue\r\n\r\n"
        let service = ScriptedService()
        try await TestServer.run(service, limits: limits) { server in
            let interim = try await server.exchange(head, until: "\r\n\r\n")
            #expect(interim == "HTTP/1.1 100 Continue\r\n\r\n")
            // A client that does not wait for the 100 gets both.
            let answer = try await server.exchange(head + "{}", until: "}\n")
            #expect(answer.hasPrefix("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"))
        }
        #expect(service.calls.map(\.body) == [Array("{}".utf8)])
    }

    @Test func `a gzip bomb counts by its decompressed size`() async throws {
        let service = ScriptedService()
        try await TestServer.run(service, limits: limits) { server in
            let bomb = gzip([UInt8](repeating: 32, count: 20 << 20), level: 9)
            #expect(bomb.count < 100_000)
            let answer = try await server.send(
                .POST, "/sync", headers: ["Content-Encoding": "gzip"], body: .bytes(ByteBuffer(bytes: bomb)))
            #expect(answer.status == 413)
            #expect(try answer.error.code == .tooLarge)
        }
        #expect(service.calls.isEmpty)
    }

    @Test(arguments: ["Content-Length: 100\r\n\r\n{\"maxRev", "Transfer-Encoding: chunked\r\n\r\n8\r\n{\"maxRev\r\n"])
    func `an interrupted upload never reaches the engine`(rest: String) async throws {
        let service = ScriptedService()
        try await TestServer.run(service) { server in
            try await server.send("POST /sync HTTP/1.1\r\nHost: localhost\r\n" + rest)
            #expect(await server.log.first(containing: "client went away") != nil)
        }
        #expect(service.calls.isEmpty)
    }
}
