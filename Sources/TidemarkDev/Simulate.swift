import ArgumentParser
import TidemarkSimulation
import TidemarkTerminal

/// `tidemark-dev simulate`: runs seeded worlds of devices, a server and a bad network.
struct Simulate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Run seeded worlds of devices, a server, a bad network and crashes, and check them.",
        discussion: """
            The real device and server cores run on real SQLite in memory, in virtual time. The seed decides every \
            event, so a failure prints the one line that replays it.

              tidemark-dev simulate --seeds 1000
              tidemark-dev simulate --seed 4711 --profile network --trace
              tidemark-dev simulate --seed 4711 --shrink
              tidemark-dev simulate --planted all

            Exit codes: 0 all promises hold; 1 a promise was broken.
            """)
    @Option(help: "The first seed.") var seed: UInt64 = 1
    @Option(help: "The number of seeds.") var seeds: UInt64 = 1
    @Option(help: "The number of effective events per seed.") var rounds = 200
    @Option(help: "The kinds of faults: \(Profile.allCases.map(\.rawValue).joined(separator: ", ")).")
    var profile = "all"
    @Option(help: "Plant a bug by name, or all, and show the check that detects it. Debug builds only.")
    var planted: String?
    @Flag(help: "Print every event.") var trace = false
    @Flag(help: "Run each seed twice and compare.") var twice = false
    @Flag(help: "Shorten the trace of the first failure, and print it.") var shrink = false
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
        try await Terminal.run {
            if let planted { return try await SimulatePlanted.run(planted) }
            guard let profile = Profile(rawValue: profile) else {
                throw ValidationError(
                    "There is no profile \(profile): " + Profile.allCases.map(\.rawValue).joined(separator: ", ") + ".")
            }
            let campaign = Campaign(
                seeds: seed..<(seed + max(1, seeds)), rounds: rounds, profile: profile, isTracing: trace,
                runsTwice: twice)
            let bar = ProgressBar("simulating")
            let result = try await campaign.run { bar.update($0, of: $1, unit: "seeds") }
            bar.finish("\(result.seeds) seeds of \(rounds) rounds, \(profile.rawValue)")
            if shrink, let seed = result.failedSeeds.first { try printShortestTrace(seed, profile) }
            try show(result)
        }
    }

    /// Prints the shortest trace in which the seed breaks the same promise.
    private func printShortestTrace(_ seed: UInt64, _ profile: Profile) throws {
        Terminal.note("shortening seed \(seed)")
        let report = try Simulation.shortest(.init(seed: seed, rounds: rounds, profile: profile))
        for line in report.trace { Terminal.line(line) }
        Terminal.line()
    }

    private func show(_ result: Campaign.Result) throws {
        for line in result.trace { Terminal.line(line) }
        if json {
            try Terminal.json(result.summary)
        } else {
            Terminal.table(
                Counters.Name.allCases.filter { result.counters[$0] > 0 }.map {
                    [$0.rawValue, String(result.counters[$0])]
                },
                right: [1])
            Terminal.line("hash  \(result.hash)")
        }
        for failure in result.failures.prefix(20) { Terminal.line(failure) }
        guard result.failures.isEmpty else { throw ExitCode.failure }
    }
}
