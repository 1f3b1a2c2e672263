import ArgumentParser
import TidemarkCore
import TidemarkTerminal

/// The tools for developers of Tidemark; no user's program needs them.
@main struct TidemarkDevCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tidemark-dev",
        abstract: "Simulate, measure and cut the network of Tidemark.",
        discussion: """
            The benchmarks start servers and devices of the program tidemark in the same folder.
            """,
        version: TidemarkVersion.current,
        subcommands: [Simulate.self, Bench.self, Relay.self, WayCommand.self, Statements.self])

    static func main() async {
        LargeBlocks.giveBack()
        await main(nil)
    }
}
