import Foundation
import Testing

extension IntegrationTests {
    /// Rule 38: PostgreSQL behind TLS: a node trusts certificates by libpq's own rules.
    @Suite struct PostgresTLSTests {
        @Test func `a node trusts only the configured certificate of PostgreSQL, and prints no secret`() async throws {
            let yard = try await TLSYard()
            let server = try await yard.workshop.serve(
                yard.arguments("sslmode=verify-ca&sslrootcert=\(yard.workshop.path("good.crt"))"),
                lasting: .seconds(300))
            try await yard.workshop.join(server, "anna.sqlite")
            try await yard.workshop.sqlite3("anna.sqlite", "INSERT INTO notes (text) VALUES ('milk')")
            try await yard.workshop.sync("anna.sqlite")
            #expect(try await yard.psql("SELECT text FROM notes") == "milk")
            // Requests, and messages between nodes, are encrypted.
            let plain = """
                SELECT count(*) FROM pg_stat_activity JOIN pg_stat_ssl USING (pid)
                WHERE application_name = 'tidemark' AND NOT ssl
                """
            #expect(try await yard.psql(plain) == "0")
            try await server.stopped()

            // With `sslmode=require` there is encryption without a trusted authority.
            let trusting = try await yard.workshop.serve(yard.arguments("sslmode=require"), lasting: .seconds(300))
            try await trusting.stopped()

            let wrong = try await yard.workshop.startTidemark(
                yard.arguments("sslmode=verify-ca&sslrootcert=\(yard.workshop.path("other.crt"))")
            ).finished()
            #expect(wrong.status != 0)
            #expect(wrong.errors.contains("certificate verify failed"), "\(wrong.errors)")
            let none = try await yard.workshop.startTidemark(
                yard.arguments("sslmode=verify-full&sslrootcert=\(yard.workshop.path("no.crt"))")
            ).finished()
            #expect(none.status != 0)
            #expect(none.errors.contains("no.crt"), "\(none.errors)")
            for result in [wrong, none] {
                #expect(result.errors.contains("Check the address"), "\(result.errors)")
                #expect(!(result.output + result.errors).contains(TLSYard.secret))
            }
            try await yard.close()
        }
    }
}

/// A PostgreSQL with a self-signed certificate, and a second certificate like it.
private struct TLSYard {
    static let secret = "hunter2-of-the-database"

    let workshop: Workshop
    private let database: String

    init() async throws {
        workshop = try Workshop()
        try workshop.write("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)", to: "s.sql")
        database = try await Self.postgres("start", workshop)
        for name in ["good", "other"] {
            let result = try await workshop.run(
                "openssl", "req", "-new", "-x509", "-days", "2", "-nodes", "-newkey", "rsa:2048", "-subj",
                "/CN=\(name)", "-keyout", workshop.path("\(name).key"), "-out", workshop.path("\(name).crt"))
            try #require(result.status == 0, "\(result.errors)")
        }
        // The server writes its own files, as the user that it runs as.
        let folder = try await psql("SHOW data_directory")
        for (file, source) in [("server.key", "good.key"), ("server.crt", "good.crt")] {
            let text = try String(contentsOfFile: workshop.path(source), encoding: .utf8)
            _ = try await psql(
                "COPY (SELECT unnest(string_to_array('\(text.trimmingCharacters(in: .newlines))', E'\\n'))) TO '\(folder)/\(file)'"
            )
        }
        // The server reads a key that only its owner may read. A program that ends before it has read its input
        // makes `COPY` fail.
        _ = try await psql("COPY (SELECT 1) TO PROGRAM 'cat >/dev/null && chmod 600 \(folder)/server.key'")
        _ = try await psql("ALTER SYSTEM SET ssl = on")
        _ = try await psql("SELECT pg_reload_conf()")
    }

    /// The arguments of a server on the database, by a URL with a password and `options`.
    func arguments(_ options: String) -> [String] {
        let address = database.replacing("app@", with: "app:\(Self.secret)@")
        return [
            "serve", "--store", "\(address)?\(options)", "--schema", workshop.path("s.sql"), "--listen", "127.0.0.1:0",
        ]
    }

    func psql(_ sql: String) async throws -> String {
        let result = try await workshop.run("psql", "-qAtX", database, "-c", sql)
        try #require(result.status == 0, "\(result.errors)")
        return result.output.trimmingCharacters(in: .newlines)
    }

    func close() async throws { _ = try await Self.postgres("stop", workshop) }

    private static func postgres(_ verb: String, _ workshop: Workshop) async throws -> String {
        let script = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../Scripts/postgres.sh")
            .standardized.path
        let result = try await workshop.run("bash", script, verb, workshop.path("postgres"))
        try #require(result.status == 0, "\(result.errors)")
        return result.output.trimmingCharacters(in: .newlines)
    }
}
