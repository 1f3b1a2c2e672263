/// Runs benchmarks: ours and the ceiling in turn, so that whatever else the machine does meets
/// both.
package struct BenchRunner: Sendable {
    private let rounds: Int
    private let setting: BenchSetting
    private let progress: @Sendable (String) -> Void

    /// Makes a runner that runs each case so many times, and says what it does.
    package init(
        rounds: Int,
        setting: BenchSetting,
        progress: @escaping @Sendable (String) -> Void
    ) {
        (self.rounds, self.setting, self.progress) = (rounds, setting, progress)
    }

    /// Every benchmark there is, in the order in which they run.
    package static let all: [any Benchmark.Type] = [
        JoinBenchmark.self, CatchUpBenchmark.self, PushBenchmark.self, SwarmBenchmark.self,
        LatencyBenchmark.self, IdleBenchmark.self, CaptureBenchmark.self,
    ]

    /// Runs a benchmark, and tells of each case when it is done.
    package func run(
        _ benchmark: any Benchmark.Type,
        found: (BenchResult) -> Void
    ) async throws {
        progress("\(benchmark.name): making ready")
        for item in try await benchmark.cases(setting) {
            found(try await run(item, of: benchmark.name))
        }
    }

    private func run(_ item: BenchCase, of benchmark: String) async throws -> BenchResult {
        var (ours, ceilings) = ([Sample](), [Sample]())
        PeakMemory.reset()
        for round in 1...rounds {
            progress("\(benchmark): \(item.name), \(round) of \(rounds)")
            // Whoever comes first in a round is second in the next.
            for isOurs in round.isMultiple(of: 2) ? [true, false] : [false, true] {
                if isOurs {
                    ours.append(try await item.ours())
                } else if let ceiling = item.ceiling {
                    ceilings.append(try await ceiling())
                }
            }
        }
        try await item.finish()
        return BenchResult(benchmark, item, setting, ours, ceilings, memory: PeakMemory.bytes())
    }
}
