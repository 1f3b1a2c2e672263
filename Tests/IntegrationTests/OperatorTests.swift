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
                    "token",
                    "revoke",
                    try #require(token["id"] as? String),
                    as: [String: Any].self
                )
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
                (["user", "add", "eve", "--role", "boss"], "owner, writer, reader, none"),
                (["user", "add", "eve", "--zone", "mian"], "no zone mian"),
                (["user", "role", "eve", "writer"], "no user eve"), (["user", "disable", "eve"], "no user eve"),
                (["user", "sign-in", "eve"], "no user eve"), (["user", "role", "anna", "writer"], "only owner"),
                (["token", "add", "anna", "--expires", "0"], "1 to 3650 days"),
                (["token", "add", "eve"], "no user eve"),
                (["token", "revoke", "none"], "no token none"), (["token", "list", "eve"], "no user eve"),
                (["audit", "--since", "yesterday"], "no date"), (["audit", "--user", "eve"], "no user eve"),
            ] {
                let refusal = try await office.run(arguments)
                #expect(refusal.status == 1, "\(arguments)")
                #expect(refusal.errors.contains(words), "\(words) in \(refusal.errors)")
            }
            #expect(try await office.run(["audit"]).output == before)
        }
    }
}
