import TidemarkEmbedded
import TidemarkServer

/// Runs benchmarks: Tidemark and the ceiling in turn, so that other load on the machine meets both.
package struct BenchRunner: Sendable {
    private let rounds: Int
    private let setting: BenchSetting
    private let progress: @Sendable (String) -> Void

    /// Makes a runner that runs each case a number of times, and reports its progress.
    package init(rounds: Int, setting: BenchSetting, progress: @escaping @Sendable (String) -> Void) {
        // A server configures SQLite when it opens its file; here devices' files are opened first.
        StatementJournals.keepInMemory
        self.rounds = rounds
        self.setting = setting
        self.progress = progress
    }

    /// All benchmarks, in the order in which they run.
    package static let all: [any Benchmark.Type] = [
        JoinBenchmark.self, CatchUpBenchmark.self, ThresholdBenchmark.self, PushBenchmark.self, SwarmBenchmark.self,
        CrowdBenchmark.self, LatencyBenchmark.self, BadNetBenchmark.self, IdleBenchmark.self, CaptureBenchmark.self,
        FanOutBenchmark.self, RepairBenchmark.self, MemoryBenchmark.self, KeysBenchmark.self, SignInBenchmark.self,
        ZonesBenchmark.self, RestBenchmark.self, StateBenchmark.self, WaysBenchmark.self, GrowthBenchmark.self,
    ]

    /// Runs a benchmark, and returns the results of its cases.
    package func run(_ benchmark: any Benchmark.Type) async throws -> [BenchResult] {
        var results: [BenchResult] = []
        for item in benchmark.cases(setting) {
            progress("\(benchmark.name): \(item.name), making ready")
            let job = try await item.prepare()
            do { results.append(try await run(job, item, of: benchmark.name)) } catch {
                // The job's own error matters more than a later one.
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
        if job.isCountedOnly {
            let sample = try await job.ours(.counted)
            return BenchResult(
                benchmark, item: item, setting: setting, ours: [sample], ceilings: [], wire: sample.wire, memory: nil)
        }
        for round in 1...rounds {
            progress("\(benchmark): \(item.name), \(round) of \(rounds)")
            // The first of a round is the second of the next one.
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
        return BenchResult(
            benchmark, item: item, setting: setting, ours: ours, ceilings: ceilings, wire: wire, memory: memory)
    }
}
