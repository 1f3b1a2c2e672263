/// Runs many seeds, in as many threads as there are processors.
package struct Campaign: Sendable {
    /// The result of many seeds.
    package struct Result: Sendable {
        /// The number of seeds that ran.
        package var seeds = 0
        /// The counts of all runs.
        package var counters = Counters()
        /// The hashes of all runs, in one.
        package var hash: UInt64 = 0
        /// One line a broken promise: seed, promise, and the command that replays it.
        package var failures: [String] = []
        /// The seeds that broke a promise.
        package var failedSeeds: [UInt64] = []
        /// The events in words, if the options want them.
        package var trace: [String] = []

        /// The result for machines.
        package var summary: Summary {
            Summary(
                seeds: seeds, hash: String(hash, radix: 16),
                counters: Dictionary(uniqueKeysWithValues: Counters.Name.allCases.map { ($0.rawValue, counters[$0]) }),
                failures: failures)
        }
    }

    /// A result for machines.
    package struct Summary: Codable, Sendable {
        /// The number of seeds that ran.
        package let seeds: Int
        /// The hashes of all runs, in one.
        package let hash: String
        /// The counts of all runs.
        package let counters: [String: Int]
        /// One line a broken promise.
        package let failures: [String]
    }

    private let seeds: Range<UInt64>
    private let options: SimulationOptions
    private let runsTwice: Bool

    /// A range of seeds, all run alike.
    package init(
        seeds: Range<UInt64>, rounds: Int = 200, profile: Profile = .all, isTracing: Bool = false,
        runsTwice: Bool = false
    ) {
        self.seeds = seeds
        self.runsTwice = runsTwice
        options = SimulationOptions(seed: 0, rounds: rounds, profile: profile, isTracing: isTracing)
    }

    /// The fewest seeds that must contain everything.
    private static let meaningfulCount = 200
    /// Each part makes files of its own, so it should not be too small.
    private var partSize: UInt64 { min(200, max(10, UInt64(seeds.count) / 16)) }

    /// Runs all seeds; `progress` gets the number of finished seeds and of all seeds.
    ///
    /// - Throws: SQLite's error if the files in memory cannot be made.
    package func run(_ progress: @Sendable (Int, Int) -> Void = { _, _ in }) async throws -> Result {
        let starts = Array(stride(from: seeds.lowerBound, to: seeds.upperBound, by: Int(partSize)))
        var parts: [UInt64: Result] = [:]
        try await withThrowingTaskGroup(of: (UInt64, Result).self) { group in
            for start in starts {
                group.addTask {
                    let end = min(start + partSize, seeds.upperBound)
                    return (start, try part(start..<end))
                }
            }
            var finishedSeeds = 0
            for try await (start, part) in group {
                parts[start] = part
                finishedSeeds += part.seeds
                progress(finishedSeeds, seeds.count)
            }
        }
        return sum(starts.compactMap { parts[$0] })
    }

    /// Runs a few seeds in this thread.
    private func part(_ range: Range<UInt64>) throws -> Result {
        let templates = FileTemplates()
        var result = Result()
        for seed in range {
            var options = options
            options.seed = seed
            let report = try Simulation.run(options, templates)
            result.seeds += 1
            result.counters += report.counters
            result.hash = result.hash &* 31 &+ report.hash
            result.trace += report.trace
            if let finding = report.finding {
                result.failedSeeds.append(seed)
                result.failures.append(line(seed, "\(finding)"))
            } else if runsTwice {
                let again = try Simulation.run(options, templates)
                guard again.hash != report.hash else { continue }
                result.failures.append(line(seed, "two runs of it differ"))
            }
        }
        return result
    }

    private func sum(_ parts: [Result]) -> Result {
        var result = parts.reduce(into: Result()) { sum, part in
            sum.seeds += part.seeds
            sum.counters += part.counters
            sum.hash = sum.hash &* 31 &+ part.hash
            sum.failures += part.failures
            sum.failedSeeds += part.failedSeeds
            sum.trace += part.trace
        }
        guard result.seeds >= Self.meaningfulCount else { return result }
        let missing = result.counters.missing(for: options.profile)
        if !missing.isEmpty {
            let names = missing.map(\.rawValue).joined(separator: ", ")
            result.failures.append("\(result.seeds) seeds prove nothing: they contain no \(names)")
        }
        return result
    }

    private func line(_ seed: UInt64, _ problem: String) -> String {
        "seed \(seed): \(problem)\n  replay: tidemark simulate --seed \(seed)"
            + " --rounds \(options.rounds) --profile \(options.profile.rawValue) --trace"
    }
}
