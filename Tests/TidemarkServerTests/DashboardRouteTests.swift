import AsyncHTTPClient
import NIOHTTP1
import Testing
import TidemarkCore
import TidemarkDashboard
import TidemarkGzip

@testable import TidemarkServer

/// The dashboard's files over HTTP.
@Suite(.timeLimit(.minutes(30))) struct DashboardRouteTests {
    @Test func `a browser gets the page, may run nothing but its files, and asks again with the tag`() async throws {
        try await TestServer.run(ScriptedService()) { server in
            let page = try await server.send(.GET, "/dashboard/")
            #expect(page.status == 200)
            #expect(page.headers["Content-Type"] == ["text/html; charset=utf-8"])
            #expect(page.headers["Cache-Control"] == ["no-cache"])
            #expect(page.text.contains("app.js"))
            let policy = try #require(page.headers.first(name: "Content-Security-Policy"))
            for rule in [
                "default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'",
                "frame-ancestors 'none'",
            ] { #expect(policy.contains(rule)) }
            #expect(!policy.contains("unsafe"))
            let tag = try #require(page.headers.first(name: "ETag"))
            for path in ["/dashboard/", "/dashboard/app.js", "/client/tidemark.js"] {
                let again = try await server.send(.GET, path, headers: ["If-None-Match": tag])
                #expect(again.status == 304, "\(path)")
                #expect(again.headers["ETag"] == [tag])
                #expect(again.body.isEmpty)
                let other = try await server.send(.GET, path, headers: ["If-None-Match": "W/\"0\""])
                #expect(other.status == 200, "\(path)")
            }
        }
    }

    @Test func `each file comes with its type, compressed if the browser wants that`() async throws {
        let types = ["js": "text/javascript", "css": "text/css", "html": "text/html"]
        try await TestServer.run(ScriptedService()) { server in
            for file in try WebPages.embedded.files().all where file.name != WebPages.clientName {
                let path = "/dashboard/\(file.name)"
                let plain = try await server.send(.GET, path)
                let type = try #require(types[String(file.name.split(separator: ".")[1])])
                #expect(plain.headers["Content-Type"] == ["\(type); charset=utf-8"], "\(path)")
                #expect(plain.body.starts(with: file.content))
                let small = try await server.send(.GET, path, headers: ["Accept-Encoding": "gzip"])
                if file.content.count > 1_024 {
                    #expect(small.headers["Content-Encoding"] == ["gzip"], "\(path)")
                    #expect(small.body.count < file.content.count)
                }
                let head = try await server.send(.HEAD, path)
                #expect(head.status == 200)
                #expect(head.body.isEmpty)
            }
            let client = try await server.send(.GET, "/client/tidemark.js")
            #expect(client.text.contains("export class Tidemark"))
        }
    }

    @Test func `the address without its slash leads to the page, and no other file is there`() async throws {
        try await TestServer.run(ScriptedService()) { server in
            let moved = try await server.send(.GET, "/dashboard")
            #expect(moved.status == 308)
            #expect(moved.headers["Location"] == ["dashboard/"])
            for path in [
                "/dashboard/nothing.js", "/dashboard/%2e%2e%2fPackage.swift", "/dashboard/../Package.swift",
                "/client/app.js", "/client/",
            ] {
                let answer = try await server.send(.GET, path)
                #expect(answer.status == 404, "\(path)")
                #expect(try answer.error.code == .unknownPath)
            }
        }
    }

    @Test func `a person who opens the server's address finds the dashboard, and a program gets an error`()
        async throws
    {
        try await TestServer.run(ScriptedService()) { server in
            let browser: HTTPHeaders = ["Accept": "text/html,application/xhtml+xml,*/*;q=0.8"]
            let page = try await server.send(.GET, "/", headers: browser)
            #expect(page.status == 200)
            #expect(page.headers["Content-Type"] == ["text/html; charset=utf-8"])
            #expect(page.headers["Content-Security-Policy"] == [WebPages.contentSecurityPolicy])
            #expect(page.text.contains(#"href="dashboard/""#))
            let programs: [HTTPHeaders] = [[:], ["Accept": "application/json"], ["Accept": "*/*"]]
            for headers in programs {
                let answer = try await server.send(.GET, "/", headers: headers)
                #expect(answer.status == 404)
                #expect(try answer.error.code == .unknownPath)
            }
        }
        try await TestServer.run(ScriptedService(), pages: WebPages.embedded.withoutDashboard) { server in
            let answer = try await server.send(.GET, "/", headers: ["Accept": "text/html"])
            #expect(answer.status == 404)
        }
    }

    @Test func `a device that was given the dashboard's address is told to leave that part out`() async throws {
        try await TestServer.run(ScriptedService()) { server in
            for path in ["/dashboard/snapshot", "/dashboard/zones/shop/snapshot", "/dashboard/sync"] {
                let error = try await server.send(.GET, path).error
                #expect(error.fix == "Leave /dashboard/ out of the server's address.")
            }
        }
    }

    @Test func `a server without the dashboard still has the small client`() async throws {
        try await TestServer.run(ScriptedService(), pages: WebPages.embedded.withoutDashboard) { server in
            for path in ["/dashboard", "/dashboard/", "/dashboard/app.js"] {
                let answer = try await server.send(.GET, path)
                #expect(answer.status == 404, "\(path)")
            }
            let client = try await server.send(.GET, "/client/tidemark.js")
            #expect(client.status == 200)
        }
    }
}
