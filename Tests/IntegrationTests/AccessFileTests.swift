import Foundation
import Testing

extension IntegrationTests {
    /// `tidemark serve --access` with the tokens of an app's own identity provider.
    @Suite(.timeLimit(.minutes(30))) struct AccessFileTests {
        /// A folder with a zone, the provider's keys and the access file.
        private struct Site {
            let workshop: Workshop
            let provider = LoginProvider("first")

            init(zones: String = #""main": {"everybody": "writer"}"#, limits: String = "") async throws {
                workshop = try Workshop()
                try await workshop.sqlite3(
                    "zone.sqlite",
                    "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT); INSERT INTO notes VALUES (1, 'first')")
                try workshop.write(provider.keys, to: "keys.json")
                try access(zones: zones, limits: limits)
            }

            func access(zones: String, limits: String = "") throws {
                try workshop.write(
                    """
                    {"identity": {"providers": [{
                       "name": "acme", "issuer": "\(LoginProvider.issuer)", "audience": "tidemark",
                       "keys": "keys.json", "algorithms": ["ES256"]}]},
                     "zones": {\(zones)}, "limits": {\(limits)}}
                    """,
                    to: "access.json"
                )
            }

            var arguments: [String] {
                [
                    "serve", workshop.path("zone.sqlite"), "--listen", "127.0.0.1:0", "--access",
                    workshop.path("access.json"),
                ]
            }

            /// Sends a request by curl, and returns its status.
            func status(_ server: Server, _ token: String?, _ path: String = "/schema", _ others: String...)
                async throws -> String
            {
                let header = token.map { ["-H", "Authorization: Bearer \($0)"] } ?? []
                let result = try await workshop.start(
                    "curl",
                    ["-sS", "--max-time", "30", "-o", "/dev/null", "-w", "%{http_code}"] + header + others + [
                        server.url + path
                    ]
                ).finished()
                try #require(result.status == 0, "\(result.errors)")
                return result.output.trimmingCharacters(in: .newlines)
            }
        }

        @Test func `an explanation is the server's decision, by its access file`() async throws {
            let site = try await Site(zones: #""main": {"everybody": "writer"}, "news": {"anonymous": true}"#)
            try await site.workshop.serve(site.arguments + ["--users"]).stopped()
            let place = ["--file", site.workshop.path("zone.sqlite")]
            let add = ["user", "add", "anna", "--role", "none"] + place
            #expect(try await site.workshop.startTidemark(add).finished().status == 0)
            let file = ["--access", site.workshop.path("access.json")]
            for (zone, more, words) in [
                ("main", file, "anna can sync zone main."), ("news", file, "anna can read zone news"),
                ("main", [], "anna never was a member"), ("other", file, "no such zone"),
            ] {
                let arguments = ["access", "explain", "anna", zone] + more + place
                let answer = try await site.workshop.startTidemark(arguments).finished()
                #expect(answer.output.contains(words), "\(zone): \(answer.output)\(answer.errors)")
            }
        }

        @Test func `a device with a provider's token joins and syncs, and strangers get nothing`() async throws {
            let site = try await Site()
            let server = try await site.workshop.serve(site.arguments)
            let token = try site.provider.token(for: "248289")
            let device = { @Sendable (arguments: [String]) in
                try await site.workshop.start(
                    Workshop.programs.appending(path: "tidemark").path, ["device"] + arguments,
                    environment: ["TIDEMARK_TOKEN": token]
                ).finished()
            }
            let joined = try await device(["join", server.url, site.workshop.path("a.sqlite")])
            #expect(joined.status == 0, "\(joined.errors)")
            try await site.workshop.sqlite3("a.sqlite", "INSERT INTO notes (text) VALUES ('mine')")
            let synced = try await device(["sync", site.workshop.path("a.sqlite")])
            #expect(synced.status == 0, "\(synced.errors)")
            #expect(try await site.workshop.sqlite3("zone.sqlite", "SELECT count(*) FROM notes") == "2")

            let bad = [
                nil, "nonsense", try LoginProvider("first").token(for: "248289"),
                try LoginProvider("other").token(for: "248289"),
                try site.provider.token(for: "248289", audience: "shop"),
            ]
            for token in bad {
                #expect(try await site.status(server, token) == "401")
                #expect(try await site.status(server, token, "/sync", "-d", #"{"maxRevision":0}"#) == "401")
            }
            #expect(try await site.status(server, token, "/metrics") == "403")
            #expect(try await site.status(server, nil, "/healthz") == "200")
            let users = try await site.workshop.sqlite3("zone.sqlite-access", "SELECT id FROM tidemark_user")
            #expect(users == "acme|248289")
            // A ban counts at once, whatever the token says.
            try await site.workshop.sqlite3("zone.sqlite-access", "UPDATE tidemark_user SET disabled = 1")
            #expect(try await site.status(server, token) == "401")

            server.program.signalled(SIGTERM)
            let end = try await server.program.finished()
            #expect(end.status == 0)
            // Not the token, nor its signature.
            let secret = token.split(separator: ".").last.map(String.init) ?? token
            for text in [end.output, end.errors, joined.output, joined.errors, synced.output, synced.errors] {
                #expect(!text.contains(secret))
            }
            for name in try site.workshop.files(with: "sqlite") {
                let bytes = try Data(contentsOf: URL(filePath: site.workshop.path(name)))
                #expect(bytes.range(of: Data(secret.utf8)) == nil, "\(name)")
            }
        }

        @Test func `SIGHUP reads keys, rights and limits again, and a bad file leaves the former in force`()
            async throws
        {
            let site = try await Site()
            let server = try await site.workshop.serve(site.arguments)
            let token = try site.provider.token(for: "1")
            #expect(try await site.status(server, token) == "200")
            #expect(try await site.status(server, nil) == "401")

            let next = LoginProvider("second")
            try site.workshop.write(next.keys, to: "keys.json")
            try site.access(zones: #""main": {"anonymous": true}"#)
            server.program.signalled(SIGHUP)
            _ = try await server.program.line(with: "read the access file again")
            #expect(try await site.status(server, token) == "401")
            let nextToken = try next.token(for: "1")
            #expect(try await site.status(server, nextToken) == "200")
            #expect(try await site.status(server, nil) == "200")

            for bad in ["{", #"{"identity": {"builtIn": true}, "zone": {"main": {"anonymous": true}}}"#] {
                try site.workshop.write(bad, to: "access.json")
                server.program.signalled(SIGHUP)
                let line = try await server.program.line(with: "the former access file stays in force")
                #expect(line.contains("access.json has 1 problem"), "\(line)")
                #expect(try await site.status(server, nextToken) == "200")
            }
            try site.access(zones: #""main": {"everybody": "reader"}"#)
            try site.workshop.write(#"{"keys": []}"#, to: "keys.json")
            server.program.signalled(SIGHUP)
            let line = try await server.program.line(with: "the former access file stays in force")
            #expect(line.contains("acme") && line.contains("no key"), "\(line)")
            #expect(try await site.status(server, nil) == "200")

            try FileManager.default.removeItem(atPath: site.workshop.path("access.json"))
            server.program.signalled(SIGHUP)
            _ = try await server.program.line(with: "the former access file stays in force")
            #expect(try await site.status(server, nil) == "200")

            try site.workshop.write(next.keys, to: "keys.json")
            try site.access(
                zones: #""main": {"everybody": "reader"}"#, limits: #""requestsPerUser": {"perMinute": 1, "burst": 1}"#)
            server.program.signalled(SIGHUP)
            _ = try await server.program.line(with: "read the access file again")
            #expect(try await site.status(server, nil) == "401")
            #expect(try await site.status(server, nextToken) == "200")
            #expect(try await site.status(server, nextToken) == "429")
            try await server.stopped()
        }

        @Test func `zones that the access file names are made at the start, and at SIGHUP`() async throws {
            let site = try await Site(zones: #""news": {"everybody": "reader"}"#)
            let server = try await site.workshop.serve(site.arguments)
            let token = try site.provider.token(for: "1")
            #expect(try await site.status(server, token, "/zones/news/schema") == "200")
            for zone in ["main", "blog"] {
                #expect(try await site.status(server, token, "/zones/\(zone)/schema") == "404")
            }
            try site.access(zones: #""news": {"everybody": "reader"}, "blog": {"anonymous": true}"#)
            server.program.signalled(SIGHUP)
            _ = try await server.program.line(with: "read the access file again")
            #expect(try await site.status(server, nil, "/zones/blog/schema") == "200")
            #expect(try await site.status(server, nil, "/zones/news/schema") == "401")
            try site.access(zones: #""no/file": {"anonymous": true}"#)
            server.program.signalled(SIGHUP)
            let line = try await server.program.line(with: "the former access file stays in force")
            #expect(line.contains("no/file"), "\(line)")
            #expect(try await site.status(server, nil, "/zones/blog/schema") == "200")
            try await server.stopped()
            let refusal = try await site.workshop.startTidemark(site.arguments).finished()
            #expect(refusal.status == 1 && refusal.errors.contains("no/file"), "\(refusal.errors)")
        }

        @Test func `a server with a bad access file, or without keys, does not start and says why`() async throws {
            let site = try await Site(zones: #""main": {"everybody": "owner", "kind": "public"}"#)
            let refusal = try await site.workshop.startTidemark(site.arguments).finished()
            #expect(refusal.status == 1)
            #expect(refusal.errors.contains("access.json has 2 problems"), "\(refusal.errors)")
            #expect(refusal.errors.contains("zones.main.kind: "))
            #expect(refusal.errors.contains("zones.main.everybody: "))
            let check = { try await site.workshop.tidemark("access", "check", site.workshop.path("access.json")) }
            #expect(try await check().errors.contains("zones.main.kind: "))

            try site.access(zones: "")
            let good = try await check()
            #expect(good.status == 0, "\(good.errors)")
            #expect(good.output.contains("provider acme: 1 key\n"), "\(good.output)")
            try site.workshop.write(#"{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}"#, to: "keys.json")
            let keyless = try await site.workshop.startTidemark(site.arguments).finished()
            #expect(keyless.status == 1)
            #expect(keyless.errors.contains("acme") && keyless.errors.contains("oct"), "\(keyless.errors)")
            #expect(try await check().status == 1)
        }

        @Test func `a server on PostgreSQL keeps a provider's users in its database`() async throws {
            let address = try #require(ProcessInfo.processInfo.environment["TIDEMARK_POSTGRES"])
            let site = try await Site()
            let name = "access_\(UUID().uuidString.lowercased().replacing("-", with: ""))"
            let psql = { @Sendable (database: String, sql: String) in
                let result = try await site.workshop.run("psql", "-qAtX", database, "-c", sql)
                try #require(result.status == 0, "\(result.errors)")
                return result.output.trimmingCharacters(in: .newlines)
            }
            _ = try await psql(address, "CREATE DATABASE \(name)")
            let database = address.replacing(/\/[^\/]*$/, with: "/\(name)")
            let server = try await site.workshop.serve(site.arguments + ["--store", database])
            let token = try site.provider.token(for: "7")
            #expect(try await site.status(server, token) == "200")
            #expect(try await site.status(server, nil) == "401")
            #expect(try await psql(database, "SELECT id FROM tidemark.tidemark_user") == "acme|7")
            _ = try await psql(
                database,
                "UPDATE tidemark.tidemark_user SET disabled = 1; UPDATE tidemark.tidemark_access SET version = version + 1"
            )
            #expect(try await site.status(server, token) == "401")
            try await server.stopped()
            _ = try await psql(address, "DROP DATABASE \(name) WITH (FORCE)")
        }
    }
}
