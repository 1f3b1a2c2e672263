import Foundation
import Testing
import TidemarkTestSupport

extension IntegrationTests {
    /// Rule 33: the configurations of Docs/PROXY.md, run by their proxies.
    @Suite struct ProxyTests {
        private static let schema = """
            CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT, file BLOB);
            INSERT INTO notes VALUES (1, 'first', NULL);
            """
        private static let token = "1111111111111111111111111111111122222222222222222222222222222222"
        private static let missing = "is not installed; Scripts/setup.sh tests installs it"

        /// A served file behind a proxy.
        private struct Site {
            let workshop: Workshop
            let server: Server
            let proxy: Proxy

            init(_ kind: Proxy.Kind) async throws {
                workshop = try Workshop()
                try await workshop.sqlite3("zone.sqlite", ProxyTests.schema)
                server = try await workshop.serve([
                    "serve", workshop.path("zone.sqlite"), "--listen", "127.0.0.1:0", "--verbose", "--host", Proxy.name,
                    "--behind-proxy", "127.0.0.1",
                ])
                proxy = try await Proxy.start(kind, before: server, token: ProxyTests.token, in: workshop)
                try workshop.write("\(ProxyTests.token)\n", to: "token")
            }

            /// Runs `tidemark`, which trusts the proxy's certificate.
            func tidemark(_ arguments: String..., token: String? = nil) async throws -> Program.Result {
                try await start(arguments, token: token).finished()
            }

            func start(_ arguments: [String], token: String? = nil) throws -> Program {
                var environment = ["TIDEMARK_CA_FILE": workshop.path("proxy.crt")]
                environment["TIDEMARK_TOKEN"] = token
                return try workshop.start(
                    "/bin/sh",
                    ["-c", #"exec "$0" "$@" 2>&1"#, Workshop.programs.appending(path: "tidemark").path] + arguments,
                    environment: environment)
            }

            /// Sends a request as a browser or another program, to the proxy's host name.
            func curl(_ path: String, _ arguments: String...) async throws -> String {
                let result = try await startCurl(path, arguments).finished()
                try #require(result.status == 0, "\(result.errors)")
                return result.output
            }

            func startCurl(_ path: String, _ arguments: [String]) throws -> Program {
                try workshop.start(
                    "curl",
                    [
                        "-sS", "--max-time", "120", "--cacert", workshop.path("proxy.crt"), "--resolve",
                        "\(Proxy.name):\(proxy.port):127.0.0.1", "-H", "Authorization: Bearer \(ProxyTests.token)",
                    ] + arguments + ["https://\(Proxy.name):\(proxy.port)\(path)"]
                )
            }

            func finish() async throws {
                try await proxy.killed()
                try await server.stopped()
            }
        }

        @Test(.enabled(if: Tool.nginx.isThere, "nginx \(missing)"))
        func `nginx with the documented configuration requires a token and does not buffer events`() async throws {
            try await Self.walkThrough(.nginx)
        }

        @Test(.enabled(if: Tool.caddy.isThere, "caddy \(missing)"))
        func `Caddy with the documented configuration requires a token and does not buffer events`() async throws {
            try await Self.walkThrough(.caddyfile)
        }

        private static func walkThrough(_ kind: Proxy.Kind) async throws {
            let site = try await Site(kind)
            try await refuseStrangers(site)
            let joined = try await site.tidemark(
                "device", "join", site.proxy.url, site.workshop.path("a.sqlite"), "--token-file",
                site.workshop.path("token"))
            #expect(joined.status == 0, "\(joined.output)")
            for command in ["digest", "schema"] {
                let outcome = try await site.tidemark(command, site.proxy.url, token: token)
                #expect(outcome.status == 0, "\(command): \(outcome.output)")
            }
            try await upload(site)
            try await listen(site)
            try await checkNames(site)
            for file in ["b.sqlite", "c.sqlite"] {
                let command = file == "b.sqlite" ? ["device", "join"] : ["snapshot"]
                let watching = try await site.start(command + [site.proxy.url, site.workshop.path(file)], token: token)
                    .finished()
                #expect(watching.status == 0, "\(watching.output)")
            }
            try await site.workshop.expectEqual(site.server, "a.sqlite", "b.sqlite", "c.sqlite")
            let verified = try await site.tidemark("verify", site.workshop.path("b.sqlite"), token: token)
            #expect(verified.status == 0 && verified.output.contains("server  "))
            // The token is in the test's and the proxy's files, and in no file of a device.
            let search = try await site.workshop.run(
                "grep", "-rlF", "--include=*.sqlite*", token, site.workshop.folder.path)
            #expect(search.status == 1 && search.output == "", "\(search.output)\(search.errors)")
            try await site.finish()
        }

        private static func refuseStrangers(_ site: Site) async throws {
            let join = ["device", "join", site.proxy.url, site.workshop.path("no.sqlite")]
            let none = try await site.start(join).finished()
            #expect(none.status == 1)
            #expect(none.output.contains("requires a token, and this device has none"), "\(none.output)")
            let wrong = try await site.start(join, token: "3333").finished()
            #expect(wrong.status == 1)
            #expect(wrong.output.contains("does not accept the token"), "\(wrong.output)")
            #expect(!wrong.output.contains("3333"))
            #expect(try site.workshop.files(with: "no.sqlite") == [])
            let untrusting = try await site.workshop.startTidemark(join).finished()
            #expect(untrusting.status == 4)
            #expect(untrusting.errors.contains("certificate is not trusted"))
            #expect(untrusting.errors.contains("--ca-file"))
            let plain = try await site.workshop.tidemark("schema", "http://localhost:\(site.proxy.port)")
            #expect(plain.errors.contains("begin it with https://"), "\(plain.errors)")
        }

        /// Sends far more than proxies accept by default: twice nginx's limit from a device, and
        /// almost the server's own limit from the client.
        private static func upload(_ site: Site) async throws {
            try await site.workshop.sqlite3(
                "a.sqlite", "INSERT INTO notes (text, file) VALUES ('large', randomblob(2000000))")
            let synced = try await site.tidemark("device", "sync", site.workshop.path("a.sqlite"), token: token)
            #expect(synced.status == 0, "\(synced.output)")
            let body = #"{"maxRevision":2,"changeSets":[{"notes":{"update":[1],"attributes":{"1":{"text":"long"}}}}]"#
            try site.workshop.write(body + String(repeating: " ", count: 60 << 20) + "}", to: "body.json")
            let answer = try await site.curl("/sync", "--data-binary", "@\(site.workshop.path("body.json"))")
            #expect(answer.contains(#""maxRevision":3"#), "\(answer)")
            #expect(
                try await site.workshop.sqlite3("zone.sqlite", "SELECT text, length(file) FROM notes ORDER BY id")
                    == "long|\nlarge|2000000")
        }

        /// Receives a commit from the open stream: the next event would come 15 s later.
        private static func listen(_ site: Site) async throws {
            let listener = try site.startCurl("/events", ["-N"])
            _ = try await listener.line(with: #""revision":"#)
            let edit = #"{"maxRevision":3,"changeSets":[{"notes":{"update":[1],"attributes":{"1":{"text":"new"}}}}]}"#
            let answer = try await site.curl("/sync", "-d", edit)
            #expect(answer.contains(#""maxRevision":4"#), "\(answer)")
            _ = try await listener.line(with: #""revision":4"#)
            try await listener.killed()
            let synced = try await site.tidemark("device", "sync", site.workshop.path("a.sqlite"), token: token)
            #expect(synced.output.contains("revision 2 -> 4"), "\(synced.output)")
        }

        /// The server's rules for web pages hold behind the proxy, under the proxy's name.
        private static func checkNames(_ site: Site) async throws {
            #expect(try await site.curl("/schema").contains("notes"))
            let own = "Origin: https://\(Proxy.name):\(site.proxy.port)"
            #expect(try await site.curl("/schema", "-H", own).contains("notes"))
            let foreign = try await site.curl("/schema", "-H", "Origin: https://evil.example")
            #expect(foreign.contains("originRefused"))
        }

        @Test(.enabled(if: Tool.nginx.isThere, "nginx \(missing)"))
        func `a watching device whose token expires continues, and syncs with the next token`() async throws {
            let site = try await Site(.nginx)
            let file = site.workshop.path("a.sqlite")
            let access = ["--token-file", site.workshop.path("token")]
            let joined = try await site.start(["device", "join", site.proxy.url, file] + access).finished()
            try #require(joined.status == 0, "\(joined.output)")
            let watch = try site.start(["device", "sync", file, "--watch", "--every", "0.2"] + access)
            let edit = "INSERT INTO notes (text) VALUES"
            try await site.workshop.sqlite3("a.sqlite", "\(edit) ('before')")
            _ = try await watch.line(with: "synced: ")

            try await site.proxy.killed()
            let token = String(repeating: "4", count: 64)
            let proxy = try await Proxy.start(
                .nginx, before: site.server, token: token, port: site.proxy.port, in: site.workshop)
            try await site.workshop.sqlite3("a.sqlite", "\(edit) ('refused')")
            _ = try await watch.line(with: "does not accept the token")
            #expect(try await site.workshop.sqlite3("zone.sqlite", "SELECT count(*) FROM notes") == "2")
            try site.workshop.write(token, to: "token")
            _ = try await watch.line(with: "synced: ")
            #expect(
                try await site.workshop.sqlite3("zone.sqlite", "SELECT text FROM notes ORDER BY id DESC LIMIT 1")
                    == "refused")
            watch.signalled(SIGTERM)
            let output = try await watch.finished().output
            #expect(![Self.token, token].contains { output.contains($0) })
            try await proxy.killed()
            try await site.server.stopped()
        }
    }

    /// Tokens on the command line are refused before anything is sent.
    @Suite struct TokenTests {
        @Test(arguments: [
            ("one\ntwo\n", "at byte 4"), ("a\u{1}b", "at byte 2"), ("a b", "at byte 2"), ("", "is empty"),
            ("\n", "is empty"),
        ]) func `an invalid token file is reported without its content`(content: String, reason: String) async throws {
            let workshop = try Workshop()
            let file = try workshop.write(content, to: "token")
            let result = try await workshop.tidemark(
                "device", "join", "http://127.0.0.1:9", workshop.path("a.sqlite"), "--token-file", file)
            #expect(result.status == 1)
            #expect(result.errors.contains("The bearer token"))
            #expect(result.errors.contains(reason), "\(result.errors)")
            #expect(!result.errors.contains("two"))
        }

        @Test func `no token is sent over an unencrypted network, and a missing token file is named`() async throws {
            let workshop = try Workshop()
            let program = Workshop.programs.appending(path: "tidemark").path
            let clear = try await workshop.start(
                program, ["digest", "http://sync.example.org"], environment: ["TIDEMARK_TOKEN": "hunter2"]
            ).finished()
            #expect(clear.status == 1)
            #expect(clear.errors.contains("Use https://"), "\(clear.errors)")
            #expect(!clear.errors.contains("hunter2"))
            for option in ["--token-file", "--ca-file"] {
                let missing = try await workshop.tidemark(
                    "digest", "https://sync.example.org", option, workshop.path("no"))
                #expect(missing.status == 1)
                #expect(missing.errors.contains(workshop.path("no")), "\(missing.errors)")
            }
        }
    }
}
