import AsyncHTTPClient
import NIOCore
import NIOPosix
import Testing
import TidemarkCore
import TidemarkGzip

/// Bodies that are too large, and what becomes of their senders.
@Suite struct BodyLimitTests {
    private var limits: Limits {
        var limits = Limits.standard
        limits.requestBytesMax = 100_000
        return limits
    }

    @Test func `a body of exactly the limit passes, one byte more does not`() async throws {
        let service = ScriptedService { _, body in Array("{\"bytes\":\(body.count)}".utf8) }
        try await TestServer.run(service, limits: limits) { server in
            let fits = try await server.send(
                .POST,
                "/sync",
                body: .bytes(ByteBuffer(repeating: 32, count: 100_000))
            )
            #expect(fits.text == "{\"bytes\":100000}\n")
            let tooLarge = try await server.send(
                .POST,
                "/sync",
                body: .bytes(ByteBuffer(repeating: 32, count: 100_001))
            )
            #expect(tooLarge.status == 413)
            #expect(try tooLarge.error.code == .tooLarge)
            #expect(try tooLarge.error.message.contains("100000 bytes"))
        }
        #expect(service.calls.count == 1)
    }

    @Test func `an upload of unknown length is refused while it comes, and sees why`() async throws
    {
        let service = ScriptedService()
        try await TestServer.run(service, limits: limits) { server in
            let endless = AsyncStream { ByteBuffer(repeating: 32, count: 64 << 10) }
            let answer = try await server.send(
                .POST,
                "/sync",
                body: .stream(endless, length: .unknown)
            )
            #expect(answer.status == 413)
            #expect(answer.headers.first(name: "Connection") == "close")
            #expect(try answer.error.code == .tooLarge)
            let next = try await server.send(.GET, "/healthz")
            #expect(next.text == "ok\n")
        }
        #expect(service.calls.isEmpty)
    }

    @Test func `a gzip bomb counts by what it would become`() async throws {
        let service = ScriptedService()
        try await TestServer.run(service, limits: limits) { server in
            let bomb = gzip([UInt8](repeating: 32, count: 20 << 20), level: 9)
            #expect(bomb.count < 100_000)
            let answer = try await server.send(
                .POST,
                "/sync",
                headers: ["Content-Encoding": "gzip"],
                body: .bytes(ByteBuffer(bytes: bomb))
            )
            #expect(answer.status == 413)
            #expect(try answer.error.code == .tooLarge)
        }
        #expect(service.calls.isEmpty)
    }

    @Test(arguments: [
        "Content-Length: 100\r\n\r\n{\"maxRev",
        "Transfer-Encoding: chunked\r\n\r\n8\r\n{\"maxRev\r\n",
    ])
    func `an upload that breaks off never reaches the engine`(rest: String) async throws {
        let service = ScriptedService()
        try await TestServer.run(service) { server in
            let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .connect(host: "127.0.0.1", port: server.port).get()
            try await channel.writeAndFlush(
                ByteBuffer(string: "POST /sync HTTP/1.1\r\nHost: test\r\n" + rest)
            )
            try await channel.close()
            #expect(await server.log.first(containing: "POST /sync client went away") != nil)
        }
        #expect(service.calls.isEmpty)
    }
}
