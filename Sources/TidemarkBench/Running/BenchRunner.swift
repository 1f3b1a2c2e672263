import TidemarkSQLiteStore

/// Runs benchmarks: ours and the ceiling in turn, so that whatever else the machine does meets
/// both.
package struct BenchRunner: Sendable {
    private let rounds: Int
    private let setting: BenchSetting
    private let progress: @Sendable (String) -> Void

    /// Makes a runner that runs each case so many times, and says what it does.
    package init(rounds: Int, setting: BenchSetting, progress: @escaping @Sendable (String) -> Void) {
        // A server makes it when it opens its file; here devices' files are opened first.
        StatementJournals.keepInMemory
        self.rounds = rounds
        self.setting = setting
        self.progress = progress
    }

    /// Every benchmark there is, in the order in which they run.
    package static let all: [any Benchmark.Type] = [
        JoinBenchmark.self, CatchUpBenchmark.self, ThresholdBenchmark.self, PushBenchmark.self, SwarmBenchmark.self,
        CrowdBenchmark.self, LatencyBenchmark.self, BadNetBenchmark.self, IdleBenchmark.self, CaptureBenchmark.self,
        FanOutBenchmark.self, RepairBenchmark.self, MemoryBenchmark.self, KeysBenchmark.self, GrowthBenchmark.self,
    ]

    /// Runs a benchmark, and returns what its cases came to.
    package func run(_ benchmark: any Benchmark.Type) async throws -> [BenchResult] {
        var results: [BenchResult] = []
        for item in benchmark.cases(setting) {
            progress("\(benchmark.name): \(item.name), making ready")
            let job = try await item.prepare()
            do { results.append(try await run(job, item, of: benchmark.name)) } catch {
                // Why the job failed matters more than what else does because of it.
                try? await job.finish()
                throw error
            }
            try await job.finish()
        }
        return results
    }

    private func run(_ job: BenchJob, _ item: BenchCase, of benchmark: String) async throws -> BenchResult {
        var ours = [Sample]()
        var ceilings = [Sample]()
        ProcessStatus.own.resetPeak()
        for round in 1...rounds {
            progress("\(benchmark): \(item.name), \(round) of \(rounds)")
            // Whoever comes first in a round is second in the next.
            for isOurs in round.isMultiple(of: 2) ? [true, false] : [false, true] {
                if isOurs {
                    ours.append(try await job.ours(.direct))
                } else if let ceiling = job.ceiling {
                    ceilings.append(try await ceiling())
                }
            }
        }
        let memory = ProcessStatus.own.peakBytes
        progress("\(benchmark): \(item.name), counting bytes")
        let wire = try await job.ours(.counted).wire
        return BenchResult(benchmark, item, setting, ours, ceilings, wire: wire, memory: memory)
    }
}
