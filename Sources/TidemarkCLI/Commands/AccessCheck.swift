import ArgumentParser
import TidemarkCore
import TidemarkEngine
import TidemarkIdentity
import TidemarkTerminal

/// `tidemark access check`: reports all problems of an access file.
struct AccessCheck: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Read an access file and the keys of its providers, and report all problems.",
        discussion: """
            Names that mean nothing are problems, too. Keys that are not used are listed with the reason. It changes \
            nothing; a server reads the file when it starts, and again on SIGHUP.

              tidemark access check access.json
            """)
    @Argument(help: "The access file.") var file: String
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
        try await Terminal.run {
            let configuration = try AccessConfiguration(path: file)
            let tokens = try await ProviderTokens(configuration.providers, now: SystemClock.milliseconds)
            if json {
                return try Terminal.json(
                    tokens.summaries.map { Provider(name: $0.name, keys: $0.keys, unusedKeys: $0.unusedKeys) })
            }
            for summary in tokens.summaries {
                Terminal.line("provider \(summary.name): \(summary.keys) key\(summary.keys == 1 ? "" : "s")")
                for reason in summary.unusedKeys { Terminal.line("  not used, \(reason)") }
            }
            Terminal.line("\(file) has no problem")
        }
    }

    /// The JSON output about a provider.
    private struct Provider: Encodable {
        let name: String
        let keys: Int
        let unusedKeys: [String]
    }
}
