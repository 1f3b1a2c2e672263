import Foundation
import Testing

extension IntegrationTests {
    /// Rule 8: a server with users on all addresses of the machine, and its operator's commands.
    @Suite(.timeLimit(.minutes(30))) struct UsersTests {
        private static let schema = "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT);"
        private static let edit =
            #"{"maxRevision":0,"changeSets":[{"notes":{"create":[-1],"attributes":{"-1":{"text":"milk"}}}}]}"#

        private static func workshop() throws -> Workshop {
            let workshop = try Workshop()
            try workshop.write(schema, to: "s.sql")
            return workshop
        }

        /// Runs a command of the operator, who works while the server runs.
        @discardableResult private static func operate(_ workshop: Workshop, _ arguments: String...) async throws
            -> Program.Result
        {
            let result = try await workshop.startTidemark(arguments + ["--data", workshop.path("data")]).finished()
            try #require(result.status == 0, "\(arguments): \(result.errors)")
            return result
        }

        /// The token in the output of a command.
        private static func token(in result: Program.Result) throws -> String {
            let match = try #require(result.output.firstMatch(of: /tm[a-z]_[a-z0-9]+_[a-z0-9]+/), "\(result.output)")
            return String(match.output)
        }

        /// Adds a user, and exchanges the sign-in token for a device's.
        private static func addDevice(_ user: String, to server: SecureServer) async throws -> String {
            let added = try await operate(server.workshop, "user", "add", user)
            return try await server.exchange(try token(in: added), device: "\(user)'s phone")
        }

        @Test func `five minutes: users over TLS, and nobody else reads a byte`() async throws {
            let workshop = try Self.workshop()
            let server = try await SecureServer.start(in: workshop)
            let paths = ["/sync", "/schema", "/snapshot", "/digest", "/events", "/me", "/zones/main/schema"]
            for path in paths {
                for token in [nil, "tmd_23456789_\(String(repeating: "a", count: 52))", "nonsense"] {
                    #expect(try await server.curl(path, token: token).status == 401, "\(path)")
                }
            }
            #expect(try await [401, 403].contains(server.curl("/metrics", token: nil).status))
            let token = try await Self.addDevice("anna", to: server)
            #expect(try await server.curl("/sync", token: token, "-d", Self.edit).status == 200)
            let me = try await server.curl("/me", token: token)
            #expect(me.body.contains(#""user":"anna""#) && me.body.contains(#"{"role":"writer","zone":"main"}"#))
            #expect(me.body.contains(#""device":"anna's phone""#))
            let events = try server.startCurl("/events", token: token)
            _ = try await events.line(with: #""revision":1}"#)
            try await events.killed()
            let joined = try await server.startDevice(
                ["device", "join", server.url, workshop.path("a.sqlite")], token: token
            ).finished()
            #expect(joined.status == 0, "\(joined.output)")
            #expect(try await workshop.sqlite3("a.sqlite", "SELECT text FROM notes") == "milk")
            // An administrator's token is for the server, and a device's is not.
            #expect(try await server.curl("/metrics", token: token).status == 403)
            let monitor = try await Self.operate(workshop, "token", "add", "anna", "--administrator")
            #expect(try await server.curl("/metrics", token: try Self.token(in: monitor)).status == 200)
            // The token is in no file of the server and of the device.
            let search = try await workshop.run("grep", "-rlF", token, workshop.folder.path)
            #expect(search.output == "")
            try await server.stopped()
        }

        @Test func `a server that others can reach starts with users and encryption only`() async throws {
            let workshop = try Self.workshop()
            let serve = [
                "serve", "--schema", workshop.path("s.sql"), "--data", workshop.path("data"), "--listen", "0.0.0.0:0",
            ]
            for (more, words) in [
                ([], ["lacks users and encryption", "tidemark user add", "--tls-certificate", "openssl req"]),
                (["--users"], ["lacks encryption.", "--behind-proxy"]),
                (["--behind-proxy", "192.0.2.1"], ["lacks users.", "tidemark user add"]),
            ] {
                let refusal = try await workshop.startTidemark(serve + more).finished()
                #expect(refusal.status == 1)
                for word in words { #expect(refusal.errors.contains(word), "\(word) in \(refusal.errors)") }
            }
            #expect(!workshop.exists("data"), "a refusal makes no file")
        }

        @Test func `a store with users is not served without them, unless the operator says so each time`() async throws
        {
            let workshop = try Self.workshop()
            let open = [
                "serve", "--schema", workshop.path("s.sql"), "--data", workshop.path("data"), "--listen", "127.0.0.1:0",
            ]
            try await workshop.serve(open).stopped()
            // A question makes no users, so the store is still one without users.
            let none = try await workshop.tidemark("user", "list", "--data", workshop.path("data"))
            #expect(none.status == 1 && none.errors.contains("no users yet"))
            try await workshop.serve(open).stopped()
            try await Self.operate(workshop, "user", "add", "anna")
            for arguments in [open, ["serve", workshop.path("data/main.sqlite"), "--listen", "127.0.0.1:0"]] {
                let refusal = try await workshop.startTidemark(arguments).finished()
                #expect(refusal.status == 1 && refusal.errors.contains("--no-identity"), "\(refusal.errors)")
                let renounced = try workshop.startTidemark(arguments + ["--no-identity"])
                _ = try await renounced.line(with: "acts as the owner")
                let line = try await renounced.line(with: "listening on http://")
                let port = try #require(line.split(separator: ":").last.flatMap { Int($0) })
                try await Server(program: renounced, port: port).stopped()
            }
        }

        @Test func `kill -9 between the issue and the first use of a token loses no sign-in`() async throws {
            let workshop = try Self.workshop()
            var server = try await SecureServer.start(in: workshop)
            let signIn = try Self.token(in: try await Self.operate(workshop, "user", "add", "anna"))
            // The answer is lost with the server.
            let lost = try await server.exchange(signIn, device: "phone")
            try await server.program.killed()
            server = try await SecureServer.start(in: workshop, port: server.port)
            let second = try await server.exchange(signIn, device: "phone")
            #expect(second != lost)
            try await server.program.killed()
            server = try await SecureServer.start(in: workshop, port: server.port)
            #expect(try await server.curl("/me", token: lost).status == 401, "nobody has received it")
            #expect(try await server.curl("/me", token: second).status == 200)
            #expect(try await server.curl("/me", token: signIn).status == 401, "its successor arrived")
            #expect(try await server.curl("/me", token: second).status == 200, "a link pasted twice revokes nothing")
            try await server.stopped()
        }

        @Test func `a user who is disabled while a device syncs loses no edit, and goes on when enabled`() async throws
        {
            let workshop = try Self.workshop()
            let server = try await SecureServer.start(in: workshop)
            let token = try await Self.addDevice("anna", to: server)
            let file = workshop.path("a.sqlite")
            let joined = try await server.startDevice(["device", "join", server.url, file], token: token).finished()
            try #require(joined.status == 0, "\(joined.output)")
            let watcher = try server.startDevice(["device", "sync", file, "--watch", "--every", "1"], token: token)
            try await workshop.sqlite3("a.sqlite", "INSERT INTO notes (text) VALUES ('before')")
            _ = try await watcher.line(with: "1 change set sent")
            try await Self.operate(workshop, "user", "disable", "anna")
            try await workshop.sqlite3("a.sqlite", "INSERT INTO notes (text) VALUES ('meanwhile')")
            _ = try await watcher.line(with: "Waiting for another token.")
            #expect(try await workshop.sqlite3("data/main.sqlite", "SELECT text FROM notes") == "before")
            let explained = try await Self.operate(workshop, "access", "explain", "anna", "main")
            #expect(explained.output.contains("the user is disabled") && explained.output.contains("user enable anna"))
            try await Self.operate(workshop, "user", "enable", "anna")
            try await watcher.killed()
            let again = try await server.startDevice(["device", "sync", file], token: token).finished()
            #expect(again.output.contains("1 change set sent"), "\(again.output)")
            #expect(try await workshop.sqlite3("data/main.sqlite", "SELECT count(*) FROM notes") == "2")
            try await server.stopped()
        }

        @Test func `a watching device whose user is removed waits, and the next role brings the rows back`()
            async throws
        {
            let workshop = try Self.workshop()
            let server = try await SecureServer.start(in: workshop)
            let token = try await Self.addDevice("anna", to: server)
            #expect(try await server.curl("/sync", token: token, "-d", Self.edit).status == 200)
            let file = workshop.path("a.sqlite")
            let joined = try await server.startDevice(["device", "join", server.url, file], token: token).finished()
            try #require(joined.status == 0, "\(joined.output)")
            let watcher = try server.startDevice(["device", "sync", file, "--watch", "--every", "0.2"], token: token)
            try await Self.operate(workshop, "user", "role", "anna", "none")
            _ = try await watcher.line(with: "Waiting for access.")
            #expect(try await workshop.sqlite3("a.sqlite", "SELECT count(*) FROM notes") == "0")
            try await Self.operate(workshop, "user", "role", "anna", "reader")
            // It asks again every 5 minutes; the next sync of any program brings the rows back.
            #expect(!watcher.isFinished)
            try await watcher.killed()
            let again = try await server.startDevice(["device", "sync", file], token: token).finished()
            #expect(again.status == 0, "\(again.output)")
            #expect(try await workshop.sqlite3("a.sqlite", "SELECT text FROM notes") == "milk")
            try await server.stopped()
        }

        @Test func `a revoked token ends the stream of events of its device, and of no other`() async throws {
            let workshop = try Self.workshop()
            let server = try await SecureServer.start(in: workshop)
            let anna = try await Self.addDevice("anna", to: server)
            let ben = try await Self.addDevice("ben", to: server)
            let ending = try server.startCurl("/events", token: anna)
            let staying = try server.startCurl("/events", token: ben)
            for stream in [ending, staying] { _ = try await stream.line(with: #""revision":0}"#) }
            try await Self.operate(workshop, "token", "revoke", String(anna.split(separator: "_")[1]))
            _ = try await ending.line(with: "event: bye")
            #expect(try await ending.finished().status == 0)
            #expect(try await server.curl("/sync", token: ben, "-d", Self.edit).status == 200)
            _ = try await staying.line(with: #""revision":1}"#)
            try await staying.killed()
            try await server.stopped()
        }
    }
}
