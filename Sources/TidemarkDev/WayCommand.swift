import ArgumentParser
import TidemarkBench
import TidemarkTerminal

/// `tidemark-dev way`: one sync of a client of `bench ways`, in a process of its own.
struct WayCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "way", abstract: "Sync a list of dishes once, in one of the ways.", shouldDisplay: false)

    @Argument(help: "The way.") var way: Way
    @Option(help: "The server's address.") var url: String
    @Option(help: "The client's file.") var file: String
    @Option(help: "The cities of the wanted dishes.") var cities: String?
    @Option(help: "The day, from 0.") var day = 0
    @Option(help: "The number of arriving dishes that the client fails to store.") var failing = 0
    @Option(help: "The number of stored dishes that it loses before.") var losing = 0

    func run() async throws {
        try await Terminal.run {
            let setting = WaySync.Setting(
                way: way, url: url, path: file, cities: cities, day: day, failing: failing, losing: losing)
            try await WaySync(setting).run()
        }
    }
}

extension Way: ExpressibleByArgument {}
