import Foundation
import Testing

/// A server process that speaks TLS with a certificate of the test's own, and the clients that trust it.
struct SecureServer: Sendable {
    let workshop: Workshop
    let program: Program
    let port: Int

    var url: String { "https://localhost:\(port)" }
    /// The certificate that clients have to trust.
    var certificate: String { workshop.path("cert.pem") }

    /// Serves a data folder with users; makes the certificate if the workshop has none yet.
    static func start(in workshop: Workshop, port: Int = 0) async throws -> SecureServer {
        if !workshop.exists("cert.pem") { try await workshop.makeCertificate("cert.pem", key: "key.pem") }
        let program = try workshop.startTidemark(
            [
                "serve", "--schema", workshop.path("s.sql"), "--data", workshop.path("data"), "--users", "--listen",
                "0.0.0.0:\(port)", "--tls-certificate", workshop.path("cert.pem"), "--tls-key",
                workshop.path("key.pem"),
            ]
        )
        let line = try await program.line(with: "listening on https://0.0.0.0:")
        return SecureServer(
            workshop: workshop, program: program,
            port: try #require(line.split(separator: ":").last.flatMap { Int($0) }))
    }

    /// Starts curl, with a token.
    func startCurl(_ path: String, token: String?, _ arguments: [String] = []) throws -> Program {
        let authorization = token.map { ["-H", "Authorization: Bearer \($0)"] } ?? []
        return try workshop.start(
            "curl",
            ["-sSN", "--max-time", "120", "--cacert", certificate] + authorization + arguments + ["\(url)\(path)"])
    }

    /// Runs curl, and returns the status and the body.
    func curl(_ path: String, token: String?, _ arguments: String...) async throws -> (status: Int, body: String) {
        let result = try await startCurl(path, token: token, ["-w", "\n%{http_code}"] + arguments).finished()
        try #require(result.status == 0, "\(result.errors)")
        let lines = result.output.split(separator: "\n")
        return (try #require(lines.last.flatMap { Int($0) }), lines.dropLast().joined(separator: "\n"))
    }

    /// Exchanges a token for a device's own.
    func exchange(_ token: String, device: String) async throws -> String {
        let answer = try await curl("/token", token: token, "-d", #"{"device":"\#(device)"}"#)
        try #require(answer.status == 200, "\(answer.body)")
        let object = try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any]
        return try #require(object?["token"] as? String)
    }

    /// Starts `tidemark` as a device's user, who trusts the certificate; errors go to its output, too.
    func startDevice(_ arguments: [String], token: String?) throws -> Program {
        var environment = ["TIDEMARK_CA_FILE": certificate]
        environment["TIDEMARK_TOKEN"] = token
        return try workshop.start(
            "/bin/sh", ["-c", #"exec "$0" "$@" 2>&1"#, Workshop.programs.appending(path: "tidemark").path] + arguments,
            environment: environment)
    }

    /// Stops it as a service manager does, and checks its exit.
    func stopped() async throws { try await Server(program: program, port: port).stopped() }
}

extension Workshop {
    /// Makes a certificate for `localhost` and its key by openssl.
    func makeCertificate(_ certificate: String, key: String, _ arguments: String...) async throws {
        let result = try await start(
            "openssl",
            [
                "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=localhost", "-addext",
                "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", path(key), "-out", path(certificate),
            ] + arguments
        ).finished()
        try #require(result.status == 0, "\(result.errors)")
    }
}
