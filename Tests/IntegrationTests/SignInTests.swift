import Foundation
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

extension IntegrationTests {
    /// A person signs a device in and out with the commands, against a real server with users.
    @Suite struct SignInTests {
        private static let schema = """
            CREATE TABLE notes (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT);
            INSERT INTO notes (text) VALUES ('first');
            """

        /// A folder whose programs keep their settings there, not in the account that runs the tests.
        private struct Desk {
            let workshop: Workshop

            func tidemark(_ arguments: String..., token: String? = nil) async throws -> Program.Result {
                var environment = ["XDG_CONFIG_HOME": workshop.path("config")]
                environment["TIDEMARK_TOKEN"] = token ?? ""
                let program = Workshop.programs.appending(path: "tidemark").path
                return try await workshop.start(program, arguments, environment: environment).finished()
            }

            var tokens: String { workshop.path("config/tidemark/tokens.json") }
        }

        @Test func `a sign-in token is exchanged once, and later commands need none`() async throws {
            try await MemberServer.run(schema: Self.schema) { server in
                let desk = Desk(workshop: try Workshop())
                let signIn = try await server.invite("anna")
                let file = desk.workshop.path("phone.sqlite")
                let joined = try await desk.tidemark("device", "join", server.url, file, token: signIn)
                try #require(joined.status == 0, "\(joined.errors)")
                let mode = try FileManager.default.attributesOfItem(atPath: desk.tokens)[.posixPermissions] as? Int
                #expect(mode == 0o600)
                let token = try #require(try FileTokenStore(path: desk.tokens).token(of: server.url)?.token)
                try await desk.workshop.sqlite3("phone.sqlite", "INSERT INTO notes (text) VALUES ('mine')")
                let synced = try await desk.tidemark("device", "sync", file)
                #expect(synced.status == 0, "\(synced.errors)")
                // The exchanged token in the environment has no effect, and another file needs no sign-in.
                let other = desk.workshop.path("tablet.sqlite")
                let again = try await desk.tidemark("device", "join", server.url, other, token: signIn)
                #expect(again.status == 0, "\(again.errors)")
                let status = try await desk.tidemark("device", "status", file, "--json")
                #expect(try await server.rows("SELECT text FROM notes ORDER BY id") == ["first", "mine"])
                for text in [joined, synced, again, status].flatMap({ [$0.output, $0.errors] }) {
                    #expect(!text.contains(signIn))
                    #expect(!text.contains(token))
                }
                #expect(try FileTokenStore(path: desk.tokens).token(of: server.url)?.token == token)
            }
        }

        @Test func `a join asks for the token on the terminal, and does not show it`() async throws {
            try await MemberServer.run(schema: Self.schema) { server in
                let workshop = try Workshop()
                let signIn = try await server.invite("anna")
                let result = try await TypedInput.run(
                    Workshop.programs.appending(path: "tidemark").path,
                    ["device", "join", server.url, workshop.path("phone.sqlite"), "--tokens", workshop.path("t.json")],
                    environment: ["TIDEMARK_TOKEN": ""], typing: signIn, at: "Sign-in token for \(server.url)")
                #expect(result.status == 0, "\(result.errors)")
                #expect(result.output.contains("joined"))
                for text in [result.output, result.errors, result.echo] { #expect(!text.contains(signIn)) }
                #expect(try FileTokenStore(path: workshop.path("t.json")).token(of: server.url) != nil)
            }
        }

        @Test func `Control-C at the question ends the join, and leaves no file`() async throws {
            try await MemberServer.run(schema: Self.schema) { server in
                let workshop = try Workshop()
                let result = try await TypedInput.run(
                    Workshop.programs.appending(path: "tidemark").path,
                    ["device", "join", server.url, workshop.path("phone.sqlite"), "--tokens", workshop.path("t.json")],
                    environment: ["TIDEMARK_TOKEN": ""], typing: "tmu_half\u{3}", at: "Sign-in token for \(server.url)")
                #expect(result.status == 130)
                #expect(!result.errors.contains("tmu_half"))
                #expect(try workshop.files(with: "sqlite") == [])
                #expect(!workshop.exists("t.json"))
            }
        }

        @Test func `without a terminal and a token a join says how to sign in, and leaves no file`() async throws {
            try await MemberServer.run(schema: Self.schema) { server in
                let desk = Desk(workshop: try Workshop())
                let file = desk.workshop.path("phone.sqlite")
                for token in [nil, "tmu_23456789_wrong"] {
                    let joined = try await desk.tidemark("device", "join", server.url, file, token: token)
                    #expect(joined.status == 1)
                    #expect(joined.errors.contains(token == nil ? "token" : "does not accept this sign-in token"))
                    #expect(!joined.errors.contains("tmu_23456789_wrong"))
                    #expect(try desk.workshop.files(with: "phone.sqlite") == [])
                }
            }
        }

        @Test func `a sign-out ends the token, but not while edits wait`() async throws {
            try await MemberServer.run(schema: Self.schema) { server in
                let desk = Desk(workshop: try Workshop())
                let signIn = try await server.invite("anna")
                let file = desk.workshop.path("phone.sqlite")
                let joined = try await desk.tidemark("device", "join", server.url, file, token: signIn)
                try #require(joined.status == 0, "\(joined.errors)")
                try await desk.workshop.sqlite3("phone.sqlite", "INSERT INTO notes (text) VALUES ('mine')")
                let refused = try await desk.tidemark("device", "sign-out", file)
                #expect(refused.status == 1)
                #expect(refused.errors.contains("1 change set"))
                #expect(refused.errors.contains("--keep-changes"))
                let out = try await desk.tidemark("device", "sign-out", file, "--keep-changes")
                #expect(out.status == 0, "\(out.errors)")
                let synced = try await desk.tidemark("device", "sync", file)
                #expect(synced.status == 1)
                #expect(synced.errors.contains("requires a token") || synced.errors.contains("token"))
                let pending = try await desk.workshop.sqlite3("phone.sqlite", "SELECT text FROM notes WHERE id > 1")
                #expect(pending == "mine")
                #expect(try await server.audit().contains("tokenRevoked"))
                // The edit waits for the next sign-in.
                let fresh = try await server.invite("anna")
                let again = try await desk.tidemark("device", "sync", file, token: fresh)
                #expect(again.status == 0, "\(again.errors)")
                #expect(try await server.rows("SELECT count(*) FROM notes WHERE text = 'mine'") == ["1"])
            }
        }

        @Test func `D6: a sync that the server puts off exits with a code of its own, and says when`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let server = try await workshop.serve("zone.sqlite")
            let relay = TCPRelay(targetPort: server.port)
            let url = "http://127.0.0.1:\(try await relay.start())"
            let file = workshop.path("a.sqlite")
            let joined = try await workshop.tidemark("device", "join", url, file)
            try #require(joined.status == 0, "\(joined.errors)")
            relay.hangUp()
            let reply = CannedReply(
                status: "429 Too Many Requests", headers: ["Content-Type: text/plain", "Retry-After: 1"],
                body: Array("no".utf8))
            relay.follow(RelayPlan([.reply(reply)]))
            let put = try await workshop.tidemark("device", "sync", file)
            #expect(put.status == 6, "\(put.errors)")
            #expect(put.errors.contains("in 1 s"))
            // A device that watches waits, and goes on by itself.
            relay.follow(RelayPlan([.reply(reply)]))
            try await workshop.sqlite3("a.sqlite", "INSERT INTO notes (text) VALUES ('mine')")
            let watch = try workshop.startTidemark(["device", "sync", file, "--watch", "--every", "0.1"])
            _ = try await watch.line(with: "1 change set sent")
            watch.signalled(SIGINT)
            _ = try await watch.finished()
            #expect(try await workshop.sqlite3("zone.sqlite", "SELECT count(*) FROM notes WHERE text = 'mine'") == "1")
            try await relay.stop()
            try await server.stopped()
        }
    }
}
