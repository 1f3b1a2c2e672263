import ArgumentParser
import Foundation
import TidemarkBench

/// `tidemark bench`: our speed beside that of the engines underneath, in the same run.
struct Bench: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Measure each job beside the same job done by SQLite or PostgreSQL alone.",
        discussion: """
            Ours and its ceiling run in turn, so the ratio holds on any machine, the times on one. Without NAME all run:

            \(BenchRunner.all.map { "  \($0.name.padding(toLength: 10, withPad: " ", startingAt: 0))\($0.summary)" }
                .joined(separator: "\n"))

              tidemark bench
              tidemark bench join push --rows 1000000
              tidemark bench swarm --store postgres://tidemark@localhost/postgres --json swarm.json

            A release build measures something: swift build -c release.
            """
    )

    @Argument(help: "Benchmarks to run, by their names.")
    var names: [String] = []

    @Option(help: "How many rows a large table has.")
    var rows = 100_000

    @Option(help: "How often each job runs.")
    var rounds = 5

    @Option(
        help: ArgumentHelp(
            "sqlite, or the address of a PostgreSQL in which databases may be made.",
            valueName: "sqlite|url"
        )
    )
    var store = "sqlite"

    @Option(help: ArgumentHelp("Write the results there as well.", valueName: "file"))
    var json: String?

    @Option(help: "The folder for files; the system's temporary folder if not given.")
    var data: String?

    func validate() throws {
        let known = BenchRunner.all.map { $0.name }
        if let unknown = names.first(where: { !known.contains($0) }) {
            throw ValidationError(
                "There is no benchmark \(unknown). There are \(known.joined(separator: ", "))."
            )
        }
        guard (10...100_000_000).contains(rows), (1...1_000).contains(rounds) else {
            throw ValidationError("--rows goes from 10 to 100,000,000, --rounds from 1 to 1,000.")
        }
        guard store == "sqlite" || store.hasPrefix("postgres") else {
            throw ValidationError("--store is sqlite, or postgres://...")
        }
    }

    func run() async throws {
        try await Terminal.run {
            let setting = BenchSetting(
                rows: rows,
                postgres: store == "sqlite" ? nil : store,
                folder: data ?? FileManager.default.temporaryDirectory.path
            )
            let runner = BenchRunner(rounds: rounds, setting: setting) { Terminal.note($0) }
            var results: [BenchResult] = []
            for benchmark in BenchRunner.all
            where names.isEmpty || names.contains(benchmark.name) {
                try await runner.run(benchmark) { results.append($0) }
            }
            Terminal.table(
                [BenchTable.heads] + results.map(BenchTable.row),
                right: BenchTable.right
            )
            guard let json else { return }
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
            try encoder.encode(results).write(to: URL(filePath: json))
        }
    }
}
