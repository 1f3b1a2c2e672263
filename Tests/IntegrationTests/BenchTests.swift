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

        @Test func `E7: in five days of a list, the ways that compare are right, and portions by time lose rows`()
            async throws
        {
            let workshop = try Workshop()
            let file = workshop.path("results.json")
            let options = ["ways", "--rows", "2000", "--days", "5", "--json", file, "--plots", workshop.path("plots")]
            let run = try await workshop.startTidemarkDev(["bench"] + options).finished()
            #expect(run.status == 0, "\(run.errors)")
            let results = try JSONDecoder().decode([Result].self, from: Data(contentsOf: URL(filePath: file)))
            let wrong = Dictionary(uniqueKeysWithValues: results.map { ($0.name, $0.wrong) })
            #expect(results.count == 9)
            for name in ["1 everything", "5 compare", "5 of 2 of 10 cities"] {
                #expect(wrong[name] == [0, 0, 0], "\(name)")
            }
            #expect(try #require(wrong["2 only newer"]) != [0, 0, 0])
            #expect(try #require(wrong["3 by time"])[0] > 1_000)
            #expect(try #require(results.last?.figures.first { $0.name == "wrong then" }?.value) == 0)
            #expect(results.allSatisfy { $0.dailyBytes.count == 5 && $0.dailyBytes.allSatisfy { $0 > 0 } })
            #expect(FileManager.default.fileExists(atPath: workshop.path("plots/ways-bytes.svg")))
        }

        private struct Result: Decodable {
            let benchmark: String
            let name: String
            let store: String
            let seconds: Spread
            let wire: Wire?
            let dailyBytes: [Int]
            let figures: [Figure]

            /// The numbers of dishes that are missing, stale, and not deleted.
            var wrong: [Double] {
                ["missing", "stale", "undeleted"].map { name in figures.first { $0.name == name }?.value ?? -1 }
            }

            struct Figure: Decodable {
                let name: String
                let value: Double
            }
            struct Spread: Decodable { let median: Double }
            struct Wire: Decodable {
                let requests: Int?
                let bytesDown: Int
            }
        }
    }
}
