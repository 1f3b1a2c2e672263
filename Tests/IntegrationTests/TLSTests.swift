import Foundation
import Testing

extension IntegrationTests {
    /// A server that encrypts by itself: its files, and the ends of its connections.
    @Suite(.timeLimit(.minutes(30))) struct TLSTests {
        @Test func `a certificate or key that cannot be used is refused at the start, with the reason`() async throws {
            let workshop = try Workshop()
            try workshop.write("CREATE TABLE notes (id INTEGER PRIMARY KEY);", to: "s.sql")
            try await workshop.makeCertificate("cert.pem", key: "key.pem")
            try await workshop.makeCertificate("other.pem", key: "other.key")
            let locked = try await workshop.run(
                "openssl", "pkcs8", "-topk8", "-in", workshop.path("key.pem"), "-passout", "pass:secret", "-out",
                workshop.path("locked.pem"))
            try #require(locked.status == 0, "\(locked.errors)")
            for (certificate, key, words) in [
                ("missing.pem", "key.pem", "There is no file"), ("cert.pem", "missing.pem", "There is no file"),
                ("s.sql", "key.pem", "holds no certificate in PEM form"),
                ("cert.pem", "s.sql", "holds no key in PEM form"),
                ("key.pem", "key.pem", "holds no certificate"), ("cert.pem", "cert.pem", "holds no key"),
                ("cert.pem", "other.key", "does not belong to the first certificate"),
                ("cert.pem", "locked.pem", "has a passphrase"),
            ] {
                let refusal = try await workshop.tidemark(
                    "serve", "--schema", workshop.path("s.sql"), "--data", workshop.path("data"), "--tls-certificate",
                    workshop.path(certificate), "--tls-key", workshop.path(key))
                #expect(refusal.status == 1, "\(certificate) \(key)")
                #expect(refusal.errors.contains(words), "\(words) in \(refusal.errors)")
                #expect(refusal.errors.contains("what to do"))
            }
            #expect(!workshop.exists("data"), "a refusal makes no file")
        }

        @Test func `a key that everybody can read, and a certificate that ends soon, are warnings`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("z.sqlite", "CREATE TABLE notes (id INTEGER PRIMARY KEY)")
            try await workshop.makeCertificate("cert.pem", key: "key.pem", "-days", "3")
            try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: workshop.path("key.pem"))
            let program = try workshop.startTidemark([
                "serve", workshop.path("z.sqlite"), "--listen", "127.0.0.1:0", "--tls-certificate",
                workshop.path("cert.pem"), "--tls-key", workshop.path("key.pem"),
            ])
            _ = try await program.line(with: "listening on https://127.0.0.1:")
            program.signalled(SIGTERM)
            let result = try await program.finished()
            #expect(result.status == 0)
            #expect(result.errors.contains("chmod 600"), "\(result.errors)")
            #expect(result.errors.contains("the certificate ends on"), "\(result.errors)")
        }

        @Test func `plain HTTP and old TLS end at once on the port of TLS, and it goes on`() async throws {
            let workshop = try Workshop()
            try workshop.write("CREATE TABLE notes (id INTEGER PRIMARY KEY);", to: "s.sql")
            let server = try await SecureServer.start(in: workshop)
            for _ in 0..<3 {
                let plain = try await workshop.run(
                    "curl", "-sS", "--max-time", "20", "http://localhost:\(server.port)/schema")
                // 52 is an empty reply and 56 a reset; 28 would be the end of curl's patience.
                #expect([52, 56].contains(plain.status), "\(plain.status) \(plain.errors)")
                for suites in ["AES256-SHA", "AES128-GCM-SHA256", "ECDHE-RSA-AES128-SHA"] {
                    // Without forward secrecy, or without authenticated encryption.
                    let weak = try server.startCurl("/healthz", token: nil, ["--tls-max", "1.2", "--ciphers", suites])
                    #expect(try await weak.finished().status == 35, "\(suites)")
                }
                let good = ["--tls-max", "1.2", "--ciphers", "ECDHE-RSA-AES128-GCM-SHA256", "-i"]
                let strict = try await server.startCurl("/healthz", token: nil, good).finished()
                #expect(strict.status == 0 && strict.output.lowercased().contains("strict-transport-security"))
                let old = try server.startCurl("/healthz", token: nil, ["--tls-max", "1.1"])
                #expect(try await old.finished().status == 35)
            }
            #expect(try await server.curl("/healthz", token: nil).body == "ok")
            try await server.stopped()
        }

        @Test func `rule 32: a slow download completes over TLS while the server stops`() async throws {
            let workshop = try Workshop()
            try workshop.write("CREATE TABLE notes (id INTEGER PRIMARY KEY, body BLOB);", to: "s.sql")
            let server = try await SecureServer.start(in: workshop)
            try await workshop.sqlite3(
                "data/main.sqlite",
                "INSERT INTO notes (body) SELECT randomblob(100000) FROM json_each('[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]')"
            )
            let token = try await workshop.json("user", "add", "anna", "--data", workshop.path("data"), "--json")
            let device = try await server.exchange(try #require(token["token"] as? String), device: "phone")
            let path = workshop.path("snapshot.gz")
            let download = try server.startCurl(
                "/snapshot", token: device, ["--limit-rate", "500k", "-D", "/dev/stdout", "-o", path])
            // The head has arrived, so the request is in progress.
            _ = try await download.line(with: "Content-Length")
            try await server.stopped()
            let result = try await download.finished()
            #expect(result.status == 0, "\(result.errors)")
            #expect(try await workshop.run("gzip", "-t", path).status == 0)
        }

        @Test func `a listener that hangs up leaves at once, over TLS too`() async throws {
            let workshop = try Workshop()
            try workshop.write("CREATE TABLE notes (id INTEGER PRIMARY KEY);", to: "s.sql")
            let server = try await SecureServer.start(in: workshop)
            let added = try await workshop.json("user", "add", "anna", "--data", workshop.path("data"), "--json")
            let device = try await server.exchange(try #require(added["token"] as? String), device: "phone")
            let monitor = try await workshop.json(
                "token", "add", "anna", "--administrator", "--data", workshop.path("data"), "--json")
            let listeners = { () async throws -> String in
                let page = try await server.curl("/metrics", token: monitor["token"] as? String).body
                return page.split(separator: "\n").last { $0.hasPrefix("tidemark_listeners ") }.map(String.init) ?? ""
            }
            let stream = try server.startCurl("/events", token: device)
            _ = try await stream.line(with: #""revision":0}"#)
            #expect(try await listeners() == "tidemark_listeners 1")
            try await stream.killed()
            var now = try await listeners()
            for _ in 0..<500 where now != "tidemark_listeners 0" { now = try await listeners() }
            #expect(now == "tidemark_listeners 0")
            try await server.stopped()
        }
    }
}
