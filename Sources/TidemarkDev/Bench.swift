import ArgumentParser
import Foundation
import TidemarkBench
import TidemarkTerminal

/// `tidemark-dev bench`: our speed beside that of the engines underneath, in the same run.
struct Bench: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Measure each job beside the same job done by SQLite or PostgreSQL alone.",
        discussion: """
            Ours and its ceiling run in turn, so the ratio holds on any machine, the times on one. Without NAME all run:

            \(BenchRunner.all.map { "  \($0.name.padding(toLength: 10, withPad: " ", startingAt: 0))\($0.summary)" }
                .joined(separator: "\n"))

              tidemark-dev bench
              tidemark-dev bench join push --rows 1000000
              tidemark-dev bench swarm --store postgres://app@localhost/postgres --json swarm.json
              tidemark-dev bench growth --sizes 10000,1000000,10000000 --plots Docs/Plots

            A release build measures something: swift build -c release.
            """
    )

    @Argument(help: "Benchmarks to run, by their names.") var names: [String] = []

    @Option(help: "How many rows a large table has; 100000 if not given.") var rows: Int?

    @Option(help: "How often each job runs; 5 times if not given.") var rounds: Int?

    @Option(
        help: ArgumentHelp(
            "sqlite, or the address of a PostgreSQL in which databases may be made.",
            valueName: "sqlite|url"
        )
    ) var store = "sqlite"

    @Option(help: ArgumentHelp("Write the results there as well.", valueName: "file")) var json: String?

    @Option(help: ArgumentHelp("Write pictures of growth there, as SVG.", valueName: "folder")) var plots: String?

    @Option(
        help: ArgumentHelp(
            "The sizes of zones for growth, in rows; 10000,100000,1000000 if not given.",
            valueName: "rows,..."
        )
    ) var sizes: Counts?

    @Option(
        help: ArgumentHelp(
            "The lengths of history for growth, in revisions; 100,1000,10000 if not given.",
            valueName: "revisions,..."
        )
    ) var histories: Counts?

    @Option(
        help: ArgumentHelp(
            "How many listen in fanout; 100,1000,10000 if not given, as far as the system permits.",
            valueName: "count,..."
        )
    ) var listeners: Counts?

    @Option(help: "The folder for files; the system's temporary folder if not given.") var data: String?

    @Flag(help: "Run everything once with next to nothing to do: shows that it works, measures nothing.") var trial =
        false

    func validate() throws {
        let known = BenchRunner.all.map { $0.name }
        if let unknown = names.first(where: { !known.contains($0) }) {
            throw ValidationError("There is no benchmark \(unknown). There are \(known.joined(separator: ", ")).")
        }
        guard (10...100_000_000).contains(rows ?? 10), (1...1_000).contains(rounds ?? 1) else {
            throw ValidationError("--rows goes from 10 to 100,000,000, --rounds from 1 to 1,000.")
        }
        guard store == "sqlite" || store.hasPrefix("postgres") else {
            throw ValidationError("--store is sqlite, or postgres://...")
        }
    }

    func run() async throws {
        try await Terminal.run {
            let runner = BenchRunner(rounds: rounds ?? (trial ? 1 : 5), setting: setting) { Terminal.note($0) }
            var results: [BenchResult] = []
            for benchmark in BenchRunner.all where names.isEmpty || names.contains(benchmark.name) {
                let found = try await runner.run(benchmark)
                let table = BenchTable.rows(found)
                Terminal.line("\(benchmark.name): \(benchmark.summary)")
                Terminal.table(table.rows, right: table.right)
                for note in BenchTable.notes(found) { Terminal.line(note) }
                Terminal.line()
                results += found
            }
            if let plots { for path in try GrowthPlots.write(results, to: plots) { Terminal.note("wrote \(path)") } }
            guard let json else { return }
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
            try encoder.encode(results).write(to: URL(filePath: json))
        }
    }

    private var setting: BenchSetting {
        var setting = BenchSetting(
            rows: rows ?? (trial ? 200 : 100_000),
            postgres: store == "sqlite" ? nil : store,
            folder: data ?? FileManager.default.temporaryDirectory.path
        )
        setting.isTrial = trial
        if trial { (setting.sizes, setting.histories, setting.listeners) = ([50], [20], [5]) }
        if let sizes { setting.sizes = sizes.numbers }
        if let histories { setting.histories = histories.numbers }
        if let listeners { setting.listeners = listeners.numbers }
        return setting
    }

    /// Numbers from 1, written as 100,1000.
    struct Counts: ExpressibleByArgument {
        let numbers: [Int]

        init?(argument: String) {
            let numbers = argument.split(separator: ",").compactMap { Int($0) }.filter { $0 > 0 }
            guard numbers.count == argument.split(separator: ",").count, !numbers.isEmpty else { return nil }
            self.numbers = numbers
        }
    }
}
