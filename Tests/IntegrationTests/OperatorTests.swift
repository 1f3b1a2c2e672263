import Foundation
import Testing

extension IntegrationTests {
    /// The commands of an operator, on both stores.
    @Suite(.timeLimit(.minutes(30))) struct OperatorTests {
        /// The place of the users of a server, which need not run.
        private struct Office {
            let workshop: Workshop
            private let place: [String]
            private let database: String?

            init(isPostgres: Bool) async throws {
                workshop = try Workshop()
                guard isPostgres else {
                    try await workshop.sqlite3("z.sqlite", "CREATE TABLE notes (id INTEGER PRIMARY KEY)")
                    place = ["--file", workshop.path("z.sqlite")]
                    database = nil
                    return
                }
                let server = try #require(ProcessInfo.processInfo.environment["TIDEMARK_POSTGRES"])
                let name = "office_\(UUID().uuidString.lowercased().replacing("-", with: ""))"
                let made = try await workshop.run("psql", "-qX", server, "-c", "CREATE DATABASE \(name)")
                try #require(made.status == 0, "\(made.errors)")
                let address = server.replacing(/\/[^\/]*$/, with: "/\(name)")
                place = ["--store", address]
                database = address
            }

            func run(_ arguments: [String]) async throws -> Program.Result {
                try await workshop.startTidemark(arguments + place).finished()
            }

            /// Runs a command that succeeds, and returns its JSON.
            func json<Value>(_ arguments: String..., as type: Value.Type = [[String: Any]].self) async throws -> Value {
                let result = try await workshop.startTidemark(arguments + place + ["--json"]).finished()
                try #require(result.status == 0, "\(arguments): \(result.errors)")
                return try #require(JSONSerialization.jsonObject(with: Data(result.output.utf8)) as? Value)
            }

            func outcome(_ user: String) async throws -> String? {
                try await json("access", "explain", user, "main", as: [String: Any].self)["outcome"] as? String
            }

            /// The arguments of a server.
            private var start: [String] {
                let store = database.map { ["serve", "--schema", workshop.path("s.sql"), "--store", $0] }
                return (store ?? ["serve", workshop.path("z.sqlite")]) + ["--listen", "127.0.0.1:0"]
            }

            /// Makes the zone, so that commands know its name.
            func serveOnce(_ more: String...) async throws {
                try workshop.write("CREATE TABLE notes (id INTEGER PRIMARY KEY);", to: "s.sql")
                try await workshop.serve(start + more).stopped()
            }

            /// Serves without users, which has to be refused.
            func refusal() async throws -> Program.Result { try await workshop.startTidemark(start).finished() }
        }

        @Test(arguments: [false, true])
        func `an operator adds, lists, explains and disables users, and the audit has it all`(isPostgres: Bool)
            async throws
        {
            let office = try await Office(isPostgres: isPostgres)
            try await office.serveOnce("--users")
            let added = try await office.json("user", "add", "anna", as: [String: Any].self)
            #expect((added["token"] as? String)?.hasPrefix("tmu_") == true)
            _ = try await office.json("user", "add", "ben", "--role", "reader", as: [String: Any].self)
            _ = try await office.json("user", "add", "olga", "--role", "none", as: [String: Any].self)
            #expect(try await office.outcome("anna") == "mayWrite")
            #expect(try await office.outcome("ben") == "mayRead")
            #expect(try await office.outcome("olga") == "isNoMember")
            #expect(try await office.outcome("zoe") == "isUnknown")
            for token in try await office.json("token", "list", "anna") {
                _ = try await office.json(
                    "token", "revoke", try #require(token["id"] as? String), as: [String: Any].self)
            }
            #expect(try await office.outcome("anna") == "hasNoToken")
            _ = try await office.json("token", "add", "anna", "--expires", "30", as: [String: Any].self)
            #expect(try await office.outcome("anna") == "mayWrite")
            _ = try await office.json("user", "role", "anna", "none", as: [String: Any].self)
            #expect(try await office.outcome("anna") == "isFormerMember")
            _ = try await office.json("user", "disable", "anna", as: [String: Any].self)
            #expect(try await office.outcome("anna") == "isDisabled")
            let users = try await office.json("user", "list")
            #expect(users.map { $0["user"] as? String } == ["anna", "ben", "olga"])
            #expect(users.map { $0["state"] as? String } == ["disabled", "enabled", "enabled"])
            #expect(users[1]["roles"] as? [String: String] == ["main": "reader"])
            let audit = try await office.json("audit", "--user", "anna")
            let actions = audit.compactMap { $0["action"] as? String }
            #expect(
                actions == [
                    "userAdded", "roleChanged", "tokenIssued", "tokenRevoked", "tokenIssued", "roleChanged",
                    "userDisabled",
                ]
            )
            #expect(audit.allSatisfy { $0["author"] as? String == "operator" })
            #expect(try await office.json("audit", "--since", "2999-01-01").isEmpty)
            // No list has a secret, and tables are aligned.
            let table = try await office.run(["token", "list"])
            #expect(!table.output.contains(/tm[uda]_/))
            let columns = table.output.split(separator: "\n").map {
                $0.distance(from: $0.startIndex, to: $0.firstRange(of: "20")?.lowerBound ?? $0.endIndex)
            }
            #expect(Set(columns).count == 1, "\(table.output)")
        }

        @Test(arguments: [false, true])
        func `a new operator learns which rights a user has, and that a server without users stays open`(
            isPostgres: Bool
        ) async throws {
            let office = try await Office(isPostgres: isPostgres)
            try await office.serveOnce()
            let first = try await office.run(["user", "add", "anna"])
            #expect(first.output.contains("anna is a writer of zone main"), "\(first.output)")
            #expect(first.output.contains("without --users knows no users"), "\(first.output)")
            let second = try await office.run(["user", "add", "ben", "--role", "owner"])
            #expect(second.output.contains("ben is an owner of zone main"), "\(second.output)")
            #expect(!second.output.contains("--users"))
            let third = try await office.run(["user", "add", "cleo", "--role", "none"])
            #expect(third.output.contains("cleo has no zone yet"), "\(third.output)")
            let explained = try await office.run(["access", "explain", "anna", "nosuch"])
            #expect(explained.output.contains("no such zone"), "\(explained.output)")
            #expect(explained.output.contains("what to do: tidemark zones list"), "\(explained.output)")
            let monitor = try await office.run(["token", "add", "anna", "--administrator"])
            #expect(monitor.output.contains("GET /metrics and nothing else, until it is revoked"), "\(monitor.output)")
            #expect(try await office.run(["token", "list", "anna"]).output.contains("to never"))
            let removed = try await office.run(["user", "remove", "anna"])
            #expect(removed.output.contains("anna is removed"), "\(removed.output)")
            #expect(try await office.outcome("anna") == "isUnknown")
            let last = try await office.run(["user", "remove", "ben"])
            #expect(last.status == 0, "nobody else is in the zone: \(last.errors)")
        }

        @Test func `no other account of the machine can read what a server makes, and a file that it can is named`()
            async throws
        {
            let workshop = try Workshop()
            try workshop.write("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT);", to: "s.sql")
            let arguments = ["serve", "--schema", workshop.path("s.sql"), "--data", workshop.path("data"), "--users"]
            let server = try await workshop.serve(arguments + ["--listen", "127.0.0.1:0"])
            _ = try await workshop.startTidemark(["user", "add", "anna", "--data", workshop.path("data")]).finished()
            let issue = ["token", "add", "anna", "--data", workshop.path("data"), "--json"]
            let issued = try await workshop.startTidemark(issue).finished()
            let object = try JSONSerialization.jsonObject(with: Data(issued.output.utf8)) as? [String: Any]
            let token = "Authorization: Bearer \(try #require(object?["token"] as? String))"
            let body = #"{"maxRevision":0,"changeSets":[{"notes":{"create":[-1],"attributes":{"-1":{"text":"a"}}}}]}"#
            for path in ["/zones/~/sync", "/sync"] {
                _ = try await workshop.run("curl", "-sS", "-H", token, "-d", body, server.url + path)
            }
            _ = try await workshop.run(
                "curl", "-sS", "-H", token, "-o", workshop.path("s.gz"), server.url + "/snapshot")
            let found = try await workshop.run("find", workshop.path("data"), "-perm", "/077")
            #expect(found.output == "", "others can read these")
            let all = try await workshop.run("find", workshop.path("data"), "-name", "z_*.sqlite*")
            #expect(all.output.contains("-wal"), "the private zone is there: \(all.output)")
            try await server.stopped()
            #expect(try await workshop.run("chmod", "-R", "a+rX", workshop.path("data")).status == 0)
            let open = try workshop.startTidemark([
                "serve", workshop.path("data/main.sqlite"), "--users", "--listen", "127.0.0.1:0",
            ])
            let line = try await open.line(with: "listening on http://")
            let port = try #require(line.split(separator: ":").last.flatMap { Int($0) })
            try await Server(program: open, port: port).stopped()
            let errors = try await open.finished().errors
            #expect(errors.contains("every account of this machine can read"), "\(errors)")
        }

        @Test(arguments: [false, true])
        func `a question makes no users, and a store with users is served with them only`(isPostgres: Bool) async throws
        {
            let office = try await Office(isPostgres: isPostgres)
            try await office.serveOnce()
            let none = try await office.run(["user", "list"])
            #expect(none.status == 1 && none.errors.contains("no users yet"), "\(none.errors)")
            try await office.serveOnce()
            _ = try await office.json("user", "add", "anna", as: [String: Any].self)
            let refusal = try await office.refusal()
            #expect(refusal.status == 1 && refusal.errors.contains("This store has users"), "\(refusal.errors)")
            try await office.serveOnce("--users")
            try await office.serveOnce("--no-identity")
        }

        @Test(arguments: [false, true])
        func `a wrong name, role, zone, date or token is refused, and changes nothing`(isPostgres: Bool) async throws {
            let office = try await Office(isPostgres: isPostgres)
            try await office.serveOnce("--users")
            _ = try await office.json("user", "add", "anna", "--role", "owner", as: [String: Any].self)
            let before = try await office.run(["audit"]).output
            for (arguments, words) in [
                (["user", "add", "anna"], "already"), (["user", "add", ""], "1 to 255 bytes"),
                (["user", "add", "a b"], "has a space"), (["user", "add", "a\u{202E}b"], "without control characters"),
                (["user", "remove", "eve"], "no user eve"),
                (["user", "add", "eve", "--role", "boss"], "owner, writer, reader, none"),
                (["user", "add", "eve", "--zone", "mian"], "no zone mian"),
                (["user", "role", "eve", "writer"], "no user eve"), (["user", "disable", "eve"], "no user eve"),
                (["user", "sign-in", "eve"], "no user eve"), (["user", "role", "anna", "writer"], "only owner"),
                (["token", "add", "anna", "--expires", "0"], "1 to 3650 days"),
                (["token", "add", "eve"], "no user eve"),
                (["token", "revoke", "none"], "no token none"), (["token", "list", "eve"], "no user eve"),
                (["audit", "--since", "yesterday"], "is not a date"), (["audit", "--user", "eve"], "no user eve"),
            ] {
                let refusal = try await office.run(arguments)
                #expect(refusal.status == 1, "\(arguments)")
                #expect(refusal.errors.contains(words), "\(words) in \(refusal.errors)")
            }
            #expect(try await office.run(["audit"]).output == before)
        }
    }
}
