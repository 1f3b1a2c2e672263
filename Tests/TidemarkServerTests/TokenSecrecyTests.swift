import Foundation
import NIOHTTP1
import Testing
import TidemarkCore
import TidemarkEngine
import TidemarkTestSupport

@testable import TidemarkServer

/// Where a token may be found after a run: nowhere but with its holder.
@Suite(.timeLimit(.minutes(30))) struct TokenSecrecyTests {
    @Test func `no log line, error, metric or file has a token, good or bad, or the header that it came in`()
        async throws
    {
        let guarded = try await GuardedServer()
        let strangers = try await guarded.strangers().filter { $0.authorization?.isEmpty == false }
        let signIn = try await guarded.bench.issue(.signIn, to: "anna")
        let root = try await guarded.bench.issue(.administrator, to: "anna")
        let device = try await guarded.bench.device("phone", of: "anna")
        let good = [device, root, signIn].map { "Bearer \($0)" }
        let registry = PrometheusRegistry()
        try await TestServer.run(guarded.service, gate: guarded.bench.gate, registry: registry, logLevel: .trace) {
            server in
            var answers = ""
            for authorization in strangers.compactMap(\.authorization) + good {
                for route in guarded.routes() where !route.path.hasSuffix("/events") && route.method != .delete {
                    let answer = try await server.send(
                        HTTPMethod(rawValue: route.method.rawValue), route.path.replacing("{zone}", with: "main"),
                        headers: ["Authorization": authorization],
                        body: route.method == .post ? .bytes(.init(string: "no JSON")) : nil)
                    answers += "\(answer.headers) \(answer.text)"
                }
            }
            let issued = try await guarded.bench.gate.exchange(signIn, device: "laptop").token
            // A file of users that is gone is an error of the server, which is logged with its cause.
            try FileManager.default.moveItem(atPath: guarded.path, toPath: guarded.path + "-away")
            for authorization in good {
                let answer = try await server.send(.GET, "/digest", headers: ["Authorization": authorization])
                #expect(answer.status == (authorization.contains("tmu_") ? 401 : 503))
                answers += answer.text
            }
            try FileManager.default.moveItem(atPath: guarded.path + "-away", toPath: guarded.path)
            let log = server.log.all.joined(separator: "\n")
            #expect(log.contains("signInNeeded"))
            #expect(log.contains("storageFailed"))
            let places = [("log", log), ("answers", answers), ("metrics", registry.text())]
            let secrets = (strangers.compactMap(\.authorization) + good + ["Bearer \(issued)"]).flatMap(Self.secrets)
            #expect(secrets.count > 15)
            // Errors name the header to tell the sender about it; the log has no reason to.
            #expect(!log.lowercased().contains("authorization"))
            for (place, text) in places {
                for secret in secrets { #expect(!text.contains(secret), "\(place): \(secret)") }
            }
            try requireHashesOnly(guarded, of: [device, root, signIn, issued], secrets: secrets)
        }
    }

    /// The parts of a header that nobody may find again: what a token has after its public part.
    private static func secrets(_ authorization: String) -> [String] {
        authorization.split(separator: " ").filter { $0 != "Bearer" && $0 != "Basic" }.compactMap { token in
            let secret = token.split(separator: "_").last.map(String.init) ?? ""
            return secret.count < 4 ? nil : secret.trimmingCharacters(in: [","])
        }
    }

    private func requireHashesOnly(_ guarded: GuardedServer, of tokens: [String], secrets: [String]) throws {
        var bytes = Data()
        for suffix in ["", "-wal", "-shm"] { bytes += try Data(contentsOf: URL(filePath: guarded.path + suffix)) }
        for secret in secrets { #expect(bytes.range(of: Data(secret.utf8)) == nil) }
        for token in tokens {
            let hash = try #require(Token(token)).hash
            #expect(bytes.range(of: Data(hash.utf8)) != nil)
        }
    }
}
