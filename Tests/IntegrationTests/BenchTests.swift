import Foundation
import Testing
import TidemarkTestSupport

extension IntegrationTests {
    /// The benchmarks run with few rows.
    ///
    /// `make bench` measures; `make test` runs some of them.
    @Suite struct BenchTests {
        private static let all = [
            "badnet", "capture", "catchup", "crowd", "fanout", "growth", "idle", "join", "keys", "latency", "memory",
            "push", "repair", "sign-in", "swarm", "threshold", "zones",
        ]
        private static let names =
            Effort.isLong ? all : ["badnet", "capture", "growth", "join", "keys", "push", "sign-in", "zones"]

        @Test(arguments: ["sqlite", "postgres"]) func `every benchmark runs on every store and writes its result`(
            store: String
        ) async throws {
            let workshop = try Workshop()
            let address =
                store == "sqlite" ? store : try #require(ProcessInfo.processInfo.environment["TIDEMARK_POSTGRES"])
            let file = workshop.path("results.json")
            let options = ["--trial", "--store", address, "--json", file, "--plots", workshop.path("plots")]
            let run = try await workshop.startTidemarkDev(["bench"] + Self.names + options).finished()
            #expect(run.status == 0, "\(run.errors)")
            let results = try JSONDecoder().decode([Result].self, from: Data(contentsOf: URL(filePath: file)))
            #expect(Set(results.map(\.benchmark)).sorted() == Self.names)
            #expect(results.allSatisfy { $0.seconds.median > 0 && $0.store == store })
            let isLocal = Set(results.filter { $0.wire == nil }.map(\.benchmark))
            #expect(isLocal == ["capture", "keys", "zones"])
            #expect(results.allSatisfy { $0.wire == nil || ($0.wire?.bytesDown ?? 0) > 0 })
            let once = results.filter { $0.benchmark == "badnet" && $0.name.hasSuffix("ms") }
            #expect(once.map(\.wire?.requests) == [1, 1, 1, 1])
            let plots = try FileManager.default.contentsOfDirectory(atPath: workshop.path("plots"))
            #expect(plots.count == 4 && plots.allSatisfy { $0.hasSuffix(".svg") })
            #expect(run.output.contains("ratio"))
        }

        private struct Result: Decodable {
            let benchmark: String
            let name: String
            let store: String
            let seconds: Spread
            let wire: Wire?

            struct Spread: Decodable { let median: Double }
            struct Wire: Decodable {
                let requests: Int?
                let bytesDown: Int
            }
        }
    }
}
