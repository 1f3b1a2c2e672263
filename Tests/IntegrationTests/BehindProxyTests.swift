import Foundation
import Testing

extension IntegrationTests {
    /// Rule 8: a server that other machines reach through a proxy only, by this machine's outer address.
    @Suite(.timeLimit(.minutes(30))) struct BehindProxyTests {
        @Test(.enabled(if: OuterAddress.first != nil, "this machine has no address but the loopback"))
        func `only the named proxy may connect without TLS, and the log has the address of its client`() async throws {
            let outer = try #require(OuterAddress.first)
            let workshop = try Workshop()
            try await workshop.sqlite3("z.sqlite", "CREATE TABLE notes (id INTEGER PRIMARY KEY)")
            let serve = ["serve", workshop.path("z.sqlite"), "--listen", "0.0.0.0:0", "--users", "--verbose"]
            let added = try await workshop.json("user", "add", "anna", "--file", workshop.path("z.sqlite"), "--json")
            let signIn = try #require(added["token"] as? String)

            let strict = try await workshop.serve(serve + ["--behind-proxy", "192.0.2.99"], at: "0.0.0.0")
            let body = ["-d", #"{"device":"phone"}"#, "-H", "Authorization: Bearer \(signIn)"]
            let refusal = try await curl(workshop, "http://\(outer):\(strict.port)/token", body)
            #expect(refusal.contains("notAllowed") && refusal.contains("answers its proxy only"), "\(refusal)")
            #expect(try await curl(workshop, "http://\(outer):\(strict.port)/readyz").hasPrefix("ready"))
            try await strict.stopped()

            let server = try await workshop.serve(serve + ["--behind-proxy", outer], at: "0.0.0.0")
            let claimed = ["-H", "X-Forwarded-For: 203.0.113.9, 198.51.100.7"]
            let exchanged = try await curl(workshop, "http://\(outer):\(server.port)/token", body + claimed)
            #expect(exchanged.contains("tmd_"), "\(exchanged)")
            server.program.signalled(SIGTERM)
            let result = try await server.program.finished()
            #expect(result.errors.contains("client=198.51.100.7"), "\(result.errors)")
            #expect(!result.errors.contains("203.0.113.9") && !result.errors.contains(signIn))
        }

        private func curl(_ workshop: Workshop, _ url: String, _ arguments: [String] = []) async throws -> String {
            let result = try await workshop.start(
                "curl", ["-sS", "--max-time", "60", "--noproxy", "*"] + arguments + [url]
            )
            .finished()
            try #require(result.status == 0, "\(result.errors)")
            return result.output
        }
    }
}

extension Workshop {
    /// Starts a server on all addresses and waits until it listens.
    fileprivate func serve(_ arguments: [String], at host: String) async throws -> Server {
        let program = try startTidemark(arguments)
        let line = try await program.line(with: "listening on http://\(host):")
        return Server(program: program, port: try #require(line.split(separator: ":").last.flatMap { Int($0) }))
    }
}

/// An address of this machine that is not the loopback's.
private enum OuterAddress {
    static var first: String? {
        var list: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&list) == 0 else { return nil }
        defer { freeifaddrs(list) }
        return sequence(first: list, next: { $0?.pointee.ifa_next }).lazy.compactMap { $0?.pointee.ifa_addr }
            .compactMap(text(of:))
            .first { !$0.hasPrefix("127.") }
    }

    /// Returns an IPv4 address as a text.
    private static func text(of address: UnsafeMutablePointer<sockaddr>) -> String? {
        guard Int32(address.pointee.sa_family) == AF_INET else { return nil }
        var internet = address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) { $0.pointee.sin_addr }
        var buffer = [CChar](repeating: 0, count: Int(INET_ADDRSTRLEN))
        guard inet_ntop(AF_INET, &internet, &buffer, socklen_t(INET_ADDRSTRLEN)) != nil else { return nil }
        return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
