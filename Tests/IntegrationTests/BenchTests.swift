import Foundation
import Testing

extension IntegrationTests {
    /// Every benchmark runs, with few rows: what it measures is for `make bench`.
    @Suite struct BenchTests {
        @Test(arguments: ["sqlite", "postgres"])
        func `every benchmark runs on every store, and writes what it found`(store: String)
            async throws
        {
            let workshop = try Workshop()
            let address =
                store == "sqlite"
                ? store : try #require(ProcessInfo.processInfo.environment["TIDEMARK_POSTGRES"])
            let file = workshop.path("results.json")
            let run = try await workshop.tidemark(
                "bench",
                "--rows",
                "200",
                "--rounds",
                "1",
                "--store",
                address,
                "--json",
                file
            )
            #expect(run.status == 0, "\(run.errors)")
            let results = try JSONDecoder().decode(
                [Result].self,
                from: Data(contentsOf: URL(filePath: file))
            )
            let names = ["capture", "catchup", "idle", "join", "latency", "push", "swarm"]
            #expect(Set(results.map(\.benchmark)).sorted() == names)
            #expect(results.allSatisfy { $0.seconds.median > 0 && $0.store == store })
            #expect(results.filter { $0.wire != nil }.allSatisfy { $0.wire?.bytesUp ?? 0 > 0 })
            #expect(run.output.contains("ratio"))
        }

        private struct Result: Decodable {
            let benchmark: String
            let store: String
            let seconds: Spread
            let wire: Wire?

            struct Spread: Decodable { let median: Double }
            struct Wire: Decodable { let bytesUp: Int }
        }
    }
}
