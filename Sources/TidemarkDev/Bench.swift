import ArgumentParser
import Foundation
import TidemarkBench
import TidemarkTerminal

/// `tidemark-dev bench`: measures Tidemark and the database underneath in the same run.
struct Bench: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Measure each job beside the same job done by SQLite or PostgreSQL alone.",
        discussion: """
            Tidemark and the database alone run in turn, so the ratio is valid on any machine, the times only on this \
            one. Without NAME, all benchmarks run:

            \(BenchRunner.all.map { "  \($0.name.padding(toLength: 10, withPad: " ", startingAt: 0))\($0.summary)" }
                .joined(separator: "\n"))

              tidemark-dev bench
              tidemark-dev bench join push --rows 1000000
              tidemark-dev bench swarm --store postgres://app@localhost/postgres --json swarm.json
              tidemark-dev bench ways --rows 30000 --days 31 --plots Docs/Plots
              tidemark-dev bench growth --sizes 10000,1000000,10000000 --plots Docs/Plots

            Only a release build gives meaningful numbers: swift build -c release.
            """)

    @Argument(help: "The names of the benchmarks to run.") var names: [String] = []

    @Option(help: "The rows of a large table; by default 100000.") var rows: Int?

    @Option(help: "The runs of each job; by default 5.") var rounds: Int?

    @Option(
        help: ArgumentHelp(
            "sqlite, or the address of a PostgreSQL server where the benchmark may create databases.",
            valueName: "sqlite|url")) var store = "sqlite"

    @Option(help: ArgumentHelp("Also write the results to a JSON file.", valueName: "file")) var json: String?

    @Option(help: ArgumentHelp("Write plots of growth and ways to a folder, as SVG.", valueName: "folder")) var plots:
        String?

    @Option(
        help: ArgumentHelp(
            "The sizes of zones for growth, in rows; by default 10000,100000,1000000.", valueName: "rows,..."))
    var sizes: Counts?

    @Option(
        help: ArgumentHelp(
            "The lengths of history for growth, in revisions; by default 100,1000,10000.", valueName: "revisions,..."))
    var histories: Counts?

    @Option(
        help: ArgumentHelp(
            "The listeners in fanout; by default 100,1000,10000, as far as the system permits.", valueName: "count,...")
    ) var listeners: Counts?

    @Option(help: "The days of the list in ways, up to 31; by default 31.") var days: Int?

    @Option(help: "The folder for files; by default the system's temporary folder.") var data: String?

    @Flag(help: "Run everything once with minimal work: shows that it works, measures nothing.") var trial = false

    func validate() throws {
        let validNames = BenchRunner.all.map { $0.name }
        if let unknown = names.first(where: { !validNames.contains($0) }) {
            throw ValidationError("There is no benchmark \(unknown). There are \(validNames.joined(separator: ", ")).")
        }
        guard (10...100_000_000).contains(rows ?? 10), (1...1_000).contains(rounds ?? 1) else {
            throw ValidationError("--rows goes from 10 to 100,000,000, --rounds from 1 to 1,000.")
        }
        guard (3...31).contains(days ?? 3) else { throw ValidationError("--days goes from 3 to 31.") }
        guard store == "sqlite" || store.hasPrefix("postgres") else {
            throw ValidationError("--store is sqlite, or postgres://...")
        }
    }

    func run() async throws {
        try await Terminal.run {
            let runner = BenchRunner(rounds: rounds ?? (trial ? 1 : 5), setting: setting) { Terminal.note($0) }
            var results: [BenchResult] = []
            for benchmark in BenchRunner.all where names.isEmpty || names.contains(benchmark.name) {
                let newResults = try await runner.run(benchmark)
                let table = BenchTable.rows(newResults)
                Terminal.line("\(benchmark.name): \(benchmark.summary)")
                Terminal.table(table.rows, right: table.right)
                for note in BenchTable.notes(newResults) { Terminal.line(note) }
                Terminal.line()
                results += newResults
            }
            if let plots {
                let paths = try GrowthPlots.write(results, to: plots) + WaysPlot.write(results, to: plots)
                for path in paths { Terminal.note("wrote \(path)") }
            }
            guard let json else { return }
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
            try encoder.encode(results).write(to: URL(filePath: json))
        }
    }

    private var setting: BenchSetting {
        var setting = BenchSetting(
            rows: rows ?? (trial ? 200 : 100_000), postgres: store == "sqlite" ? nil : store,
            folder: data ?? FileManager.default.temporaryDirectory.path)
        setting.isTrial = trial
        if trial {
            setting.sizes = [50]
            setting.histories = [20]
            setting.listeners = [5]
            setting.days = 4
        }
        if let days { setting.days = days }
        if let sizes { setting.sizes = sizes.numbers }
        if let histories { setting.histories = histories.numbers }
        if let listeners { setting.listeners = listeners.numbers }
        return setting
    }

    /// Positive numbers, as in `100,1000`.
    struct Counts: ExpressibleByArgument {
        let numbers: [Int]

        init?(argument: String) {
            let numbers = argument.split(separator: ",").compactMap { Int($0) }.filter { $0 > 0 }
            guard numbers.count == argument.split(separator: ",").count, !numbers.isEmpty else { return nil }
            self.numbers = numbers
        }
    }
}
