import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import Testing
import TidemarkCore
import TidemarkEngine
import TidemarkTestSupport

@testable import TidemarkServer

/// Rule 8: pages of foreign origins against a real server: none reaches the service, on any
/// route.
@Suite(.timeLimit(.minutes(30))) struct WebPageTests {
    private static let foreign: [(name: String, value: String)] = [
        ("Origin", "https://evil.example"), ("Origin", "null"), ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"), ("Host", "evil.example"),
    ]

    /// The possible requests of a page: each route of the server, other methods, an unknown route.
    private static let requests: [(method: HTTPMethod, path: String)] = {
        let named = RouteTable.summary.matches(of: /(GET|POST) (\/[a-z\/{}]+)/).map { match in
            (HTTPMethod(rawValue: String(match.output.1)), String(match.output.2).replacing("{zone}", with: "main"))
        }
        return named + [
            (.POST, "/zones/main/sync"), (.DELETE, "/sync"), (.OPTIONS, "/sync"), (.HEAD, "/schema"),
            (.GET, "/nowhere"),
        ]
    }()

    private static let edit =
        #"{"maxRevision":1,"changeSets":[{"notes":{"create":[-1],"attributes":{"-1":{"text":"evil"}}}}]}"#

    private func cluster() throws -> Cluster {
        try Cluster(
            schema: "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)",
            seed: "INSERT INTO notes VALUES (1, 'first')")
    }

    private func send(_ method: HTTPMethod, _ path: String, _ headers: HTTPHeaders, to server: TestServer) async throws
        -> TestServer.Answer
    {
        // A request that a page may send without a preflight: a body of text.
        var headers = headers
        if method == .POST { headers.add(name: "Content-Type", value: "text/plain") }
        return try await server.send(
            method, path, headers: headers, body: method == .POST ? .bytes(ByteBuffer(string: Self.edit)) : nil)
    }

    @Test func `a web page of a foreign origin gets nothing from any route, and writes nothing`() async throws {
        #expect(Self.requests.count >= 20)
        let cluster = try cluster()
        try await TestServer.run(cluster.service) { server in
            for (method, path) in Self.requests {
                for (name, value) in Self.foreign {
                    let answer = try await send(method, path, [name: value], to: server)
                    let what = "\(method) \(path) with \(name): \(value)"
                    #expect(answer.status == 403, "\(what)")
                    #expect(answer.headers["Access-Control-Allow-Origin"] == [])
                    guard method != .HEAD else { continue }
                    let error = try answer.error
                    #expect(error.code == .originRefused, "\(what)")
                    #expect(error.recovery == .permanent)
                }
            }
            let page = try await server.page()
            let refusals = page.value("tidemark_refusals_total", ["code": "originRefused"])
            #expect(refusals == Double(Self.requests.count * Self.foreign.count))
        }
        #expect(try await cluster.rows("SELECT text FROM notes") == ["first"])
    }

    @Test func `curl, the user's own browser and the server's pages get answers from every route`() async throws {
        let cluster = try cluster()
        try await TestServer.run(cluster.service) { server in
            let own: [HTTPHeaders] = [
                [:], ["Host": "localhost:\(server.port)"], ["Host": "[::1]:\(server.port)"], ["Host": "localhost"],
                ["Sec-Fetch-Site": "none"], ["Sec-Fetch-Site": "same-origin", "Origin": server.url],
            ]
            // Event streams have no end.
            for (method, path) in Self.requests where !path.hasSuffix("/events") {
                for headers in own {
                    let answer = try await send(method, path, headers, to: server)
                    #expect(answer.status != 403, "\(method) \(path) with \(headers)")
                    #expect(answer.headers["Access-Control-Allow-Origin"] == [])
                }
            }
            let listener = try await RawListener.open(server)
            #expect(await listener.revision() != nil)
        }
        #expect(try await cluster.rows("SELECT text FROM notes").contains("evil"))
    }

    @Test func `a page of an allowed origin writes and reads every answer, errors included`() async throws {
        let browsers = try BrowserPolicy(allowedOrigins: ["https://app.example"], hosts: ["sync.example.org"])
        let service = ScriptedService()
        try await TestServer.run(service, browsers: browsers) { server in
            let allowed: HTTPHeaders = [
                "Origin": "https://app.example", "Sec-Fetch-Site": "cross-site", "Host": "sync.example.org",
            ]
            for (method, path) in [(.POST, "/sync"), (.GET, "/nowhere")] as [(HTTPMethod, String)] {
                let answer = try await send(method, path, allowed, to: server)
                #expect(answer.status == (method == .POST ? 200 : 404))
                #expect(answer.headers["Access-Control-Allow-Origin"] == ["https://app.example"])
                #expect(answer.headers["Access-Control-Expose-Headers"] == [CrossOrigin.answerHeaders])
                #expect(answer.headers["Access-Control-Allow-Credentials"] == [])
                #expect(answer.headers["Vary"] == ["Accept-Encoding, Origin"])
            }
            let other = try await send(.POST, "/sync", ["Origin": "https://other.example"], to: server)
            #expect(other.status == 403)
            let own = try await send(.GET, "/nowhere", ["Host": "sync.example.org"], to: server)
            #expect(own.headers["Access-Control-Allow-Origin"] == [])
            #expect(own.headers["Vary"] == ["Accept-Encoding, Origin"], "a cache would give it to a page")
        }
        #expect(service.calls.count == 1)
    }

    @Test func `a browser asks before a page sends a request, and hears yes for an allowed origin only`() async throws {
        let browsers = try BrowserPolicy(allowedOrigins: ["https://app.example"])
        let service = ScriptedService()
        try await TestServer.run(service, browsers: browsers) { server in
            let question: HTTPHeaders = [
                "Access-Control-Request-Method": "PATCH", "Access-Control-Request-Headers": "if-match",
                "Sec-Fetch-Site": "cross-site",
            ]
            for path in ["/tables/player/7", "/zones/main/batch", "/sync", "/nowhere", "/dashboard/"] {
                var headers = question
                headers.add(name: "Origin", value: "https://app.example")
                let yes = try await server.send(.OPTIONS, path, headers: headers)
                #expect(yes.status == 204, "\(path)")
                #expect(yes.body.isEmpty)
                #expect(yes.headers["Access-Control-Allow-Origin"] == ["https://app.example"])
                #expect(yes.headers["Access-Control-Allow-Methods"] == ["GET, HEAD, POST, PUT, PATCH, DELETE"])
                let allowed = try #require(yes.headers.first(name: "Access-Control-Allow-Headers"))
                for name in [
                    "If-Match", "If-None-Match", "Idempotency-Key", "Prefer", "Authorization", "Content-Type",
                    "Last-Event-ID", "Accept",
                ] { #expect(allowed.contains(name)) }
                #expect(yes.headers["Access-Control-Max-Age"] == ["86400"])
                #expect(yes.headers["Access-Control-Allow-Credentials"] == [])
                #expect(yes.headers["Vary"] == ["Origin"])
                headers.replaceOrAdd(name: "Origin", value: "https://other.example")
                let no = try await server.send(.OPTIONS, path, headers: headers)
                #expect(no.status == 403, "\(path)")
                #expect(no.headers["Access-Control-Allow-Origin"] == [])
                #expect(no.headers["Access-Control-Allow-Methods"] == [])
            }
        }
        #expect(service.calls.isEmpty)
    }

    @Test func `an endless upload of a page is refused without reading it to the end`() async throws {
        let service = ScriptedService()
        try await TestServer.run(service) { server in
            let answer = try await server.exchange(
                "POST /sync HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n"
                    + "Expect: 100-continue\r\nContent-Length: 1000000\r\n\r\n", until: "}\n")
            #expect(answer.hasPrefix("HTTP/1.1 403 Forbidden\r\n"))
            #expect(!answer.contains("100 Continue"))
            #expect(answer.lowercased().contains("connection: close"))
        }
        #expect(service.calls.isEmpty)
    }

    @Test func `a device refused for its proxy's host name is told how to allow it`() async throws {
        try await TestServer.run(ScriptedService()) { server in
            let answer = try await server.send(.GET, "/schema", headers: ["Host": "sync.example.org"])
            let error = try answer.error
            #expect(error.message.contains("sync.example.org"))
            #expect(error.fix.contains("--host"))
        }
    }
}
