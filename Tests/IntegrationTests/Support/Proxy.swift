import Foundation
import Testing

/// A real proxy before a server, with the configuration text of Docs/PROXY.md.
struct Proxy {
    /// The proxy program.
    enum Kind: String {
        case nginx
        case caddyfile
    }

    /// The token in the page.
    static let pageToken = "0f5c8e6a2b1d4c7f9e3a5b8d1c6f2e4a7b9d3c5e8f1a2b4c6d7e9f0a1b3c5d7e"
    /// The proxy's host name in the page.
    static let name = "sync.example.org"

    let kind: Kind
    let port: Int
    private let program: Program

    var url: String { "https://localhost:\(port)" }

    /// Starts a proxy that accepts a token.
    static func start(_ kind: Kind, before server: Server, token: String, port: Int? = nil, in workshop: Workshop)
        async throws -> Proxy
    {
        if !workshop.exists("proxy.crt") { try await makeCertificate(in: workshop) }
        let port = try port ?? freePort()
        let blocks = try blocks(of: kind)
        try #require(blocks.count == 2 && blocks[1].contains(pageToken))
        try workshop.write(blocks[1].replacing(pageToken, with: token), to: "tokens")
        let text = blocks[0].replacing("/etc/ssl/\(name).pem", with: workshop.path("proxy.crt")).replacing(
            "/etc/ssl/\(name).key", with: workshop.path("proxy.key")
        ).replacing("/etc/\(kind == .nginx ? "nginx" : "caddy")/tidemark-tokens", with: workshop.path("tokens"))
            .replacing("127.0.0.1:8080", with: "127.0.0.1:\(server.port)")
        let program =
            switch kind {
            case .nginx: try nginx(text.replacing("listen 443", with: "listen 127.0.0.1:\(port)"), workshop)
            case .caddyfile:
                try caddy(text.replacing("\n\(name) {", with: "\n\(name):\(port), localhost:\(port) {"), workshop)
            }
        // The last output before connections are answered.
        _ = try await program.line(with: kind == .nginx ? "getrlimit" : "serving initial configuration")
        return Proxy(kind: kind, port: port, program: program)
    }

    /// Ends it, so that another may have its port.
    ///
    /// Foundation starts programs with signals blocked that nginx in one process never unblocks.
    func killed() async throws { try await program.killed() }

    /// The configurations in the page: that of the proxy, and that of its tokens.
    private static func blocks(of kind: Kind) throws -> [String] {
        let page = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../../Docs/PROXY.md")
            .standardized
        let text = try String(contentsOf: page, encoding: .utf8)
        return text.components(separatedBy: "```\(kind.rawValue)\n").dropFirst().compactMap {
            $0.components(separatedBy: "```").first.map { "\n" + $0 }
        }
    }

    /// The machine-specific text around the page's, with all files in the test's folder.
    private static func nginx(_ text: String, _ workshop: Workshop) throws -> Program {
        let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map {
            "\($0)_temp_path \(workshop.path($0));"
        }
        let file = try workshop.write(
            """
            daemon off; master_process off; pid \(workshop.path("nginx.pid"));
            error_log stderr notice;
            events {}
            http {
                access_log off;
                \(folders.joined(separator: " "))
                \(text)
            }
            """,
            to: "nginx.conf"
        )
        let path = try #require(Tool.nginx.path)
        return try shell(workshop, path, "-e", "stderr", "-p", workshop.folder.path, "-c", file)
    }

    private static func caddy(_ text: String, _ workshop: Workshop) throws -> Program {
        let file = try workshop.write(
            "{\n admin off\n skip_install_trust\n auto_https disable_redirects\n}\n\(text)", to: "Caddyfile")
        let path = try #require(Tool.caddy.path)
        return try shell(workshop, path, "run", "--adapter", "caddyfile", "--config", file)
    }

    /// Runs a program until standard error has an expected text.
    private static func shell(_ workshop: Workshop, _ command: String...) throws -> Program {
        try workshop.start(
            "/bin/sh", ["-c", #"exec "$0" "$@" 2>&1"#] + command,
            environment: ["HOME": workshop.folder.path, "XDG_DATA_HOME": workshop.folder.path])
    }

    private static func makeCertificate(in workshop: Workshop) async throws {
        let result = try await workshop.run(
            "openssl", "req", "-new", "-x509", "-days", "2", "-nodes", "-newkey", "rsa:2048", "-subj", "/CN=\(name)",
            "-addext", "subjectAltName=DNS:\(name),DNS:localhost", "-keyout", workshop.path("proxy.key"), "-out",
            workshop.path("proxy.crt"))
        try #require(result.status == 0, "\(result.errors)")
    }
}
