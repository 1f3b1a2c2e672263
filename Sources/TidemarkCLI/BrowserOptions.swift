import ArgumentParser
import TidemarkCore
import TidemarkHTTP

/// Which web pages `tidemark serve` answers, and to which names.
struct BrowserOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "A name besides localhost that the server answers to; may be repeated.",
            discussion: "Needed when a proxy in front of the server passes its own name on.",
            valueName: "name"
        )
    ) var host: [String] = []

    @Option(
        help: ArgumentHelp(
            "An origin whose web pages may read and write; may be repeated. Without it, none but the server's own.",
            valueName: "https://app.example"
        )
    ) var allowOrigin: [String] = []

    /// The options as a value.
    func policy() throws(TidemarkError) -> BrowserPolicy { try BrowserPolicy(allowedOrigins: allowOrigin, hosts: host) }
}
