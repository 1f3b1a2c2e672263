import NIOCore
import Testing
import TidemarkCore
import TidemarkGzip

@testable import TidemarkServer

/// Encodings of request and answer bodies.
@Suite struct BodyTests {
    private let longJSON = Array(#"{"names":["\#(String(repeating: "Kiel", count: 1_000))"]}"#.utf8)

    @Test func `A14: gzip works in both directions`() async throws {
        let service = ScriptedService()
        try await TestServer.run(service) { server in
            let compressed = gzip(longJSON)
            let answer = try await server.send(
                .POST, "/sync", headers: ["Content-Encoding": "gzip", "Accept-Encoding": "br, gzip"],
                body: .bytes(ByteBuffer(bytes: compressed)))
            #expect(answer.status == 200)
            #expect(answer.headers.first(name: "Content-Encoding") == "gzip")
            #expect(answer.headers.first(name: "Content-Type") == "application/json")
            #expect(answer.headers.first(name: "Vary") == "Accept-Encoding")
            #expect(answer.headers.first(name: "Cache-Control") == "no-store")
            #expect(answer.body.count < longJSON.count / 10)
            #expect(try gunzip(answer.body, bytesMax: 1 << 20) == longJSON)
        }
        #expect(service.calls == [ScriptedService.Call(zone: "main", body: longJSON)])
    }

    @Test func `A14: an answer of many megabytes arrives whole, compressed or not`() async throws {
        let large = Array("{\"noise\":\"".utf8) + noise(count: 6 << 20).map { $0 & 0x3F + 0x30 } + Array("\"}".utf8)
        try await TestServer.run(ScriptedService { _, _ in large }) { server in
            let plain = try await server.send(.POST, "/sync", body: .bytes(ByteBuffer()))
            #expect(plain.body == large + [UInt8(ascii: "\n")])
            let compressed = try await server.send(
                .POST, "/sync", headers: ["Accept-Encoding": "gzip"], body: .bytes(ByteBuffer()))
            #expect(try gunzip(compressed.body, bytesMax: 16 << 20) == large)
        }
    }

    @Test func `A2: a body from curl is taken as JSON, and the answer ends with a newline`() async throws {
        let service = ScriptedService()
        try await TestServer.run(service) { server in
            let answer = try await server.send(
                .POST, "/sync", headers: ["Content-Type": "application/x-www-form-urlencoded", "Accept": "*/*"],
                body: .bytes(ByteBuffer(bytes: longJSON)))
            #expect(answer.headers.first(name: "Content-Encoding") == nil)
            #expect(answer.body == longJSON + [UInt8(ascii: "\n")])
        }
        #expect(service.calls.map(\.body) == [longJSON])
    }

    @Test func `a short answer is not compressed`() async throws {
        try await TestServer.run(ScriptedService { _, _ in Array("{}".utf8) }) { server in
            let answer = try await server.send(
                .POST, "/sync", headers: ["Accept-Encoding": "gzip"], body: .bytes(ByteBuffer()))
            #expect(answer.headers.first(name: "Content-Encoding") == nil)
            #expect(answer.text == "{}")
        }
    }

    @Test(
        arguments: [
            (nil, false), ("", false), ("identity", false), ("gzip", true), ("GZIP", true), ("x-gzip", true),
            ("deflate, gzip;q=0.5", true), ("gzip;q=0", false), ("gzip; q=0.000, *", false), ("*", true),
            ("*;q=0", false), ("br, *;q=0.1", true), ("br", false), ("gzip;q=nonsense", false),
        ] as [(String?, Bool)]
    ) func `A14: Accept-Encoding decides whether an answer is compressed`(header: String?, compressed: Bool) {
        #expect((ContentCoding(acceptEncoding: header) == .gzip) == compressed)
    }

    @Test(arguments: ["br", "deflate", "gzip, gzip"])
    func `a body in an unsupported encoding is refused before it is read`(encoding: String) async throws {
        let service = ScriptedService()
        try await TestServer.run(service) { server in
            let answer = try await server.send(
                .POST, "/sync", headers: ["Content-Encoding": encoding], body: .bytes(ByteBuffer(bytes: longJSON)))
            #expect(answer.status == 415)
            #expect(answer.headers.first(name: "Accept-Encoding") == "gzip")
            #expect(try answer.error.code == .unsupportedEncoding)
            #expect(try answer.error.recovery == .permanent)
        }
        #expect(service.calls.isEmpty)
    }

    @Test func `a gzip body that is cut, damaged or followed by other bytes is malformed`() async throws {
        let service = ScriptedService()
        try await TestServer.run(service) { server in
            let whole = gzip(longJSON)
            var damaged = whole
            damaged[whole.count / 2] ^= 0xFF
            for body in [[], Array(whole.dropLast()), damaged, whole + [0], longJSON] {
                let answer = try await server.send(
                    .POST, "/sync", headers: ["Content-Encoding": "gzip"], body: .bytes(ByteBuffer(bytes: body)))
                #expect(answer.status == 400)
                #expect(try answer.error.code == .malformedRequest)
            }
        }
        #expect(service.calls.isEmpty)
    }
}
