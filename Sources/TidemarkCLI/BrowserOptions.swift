import ArgumentParser
import TidemarkCore
import TidemarkServer

/// The web pages and host names that `tidemark serve` accepts.
struct BrowserOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "A host name besides localhost that the server accepts; may be repeated.",
            discussion: "Needed if a proxy in front of the server passes its own name on.", valueName: "name"))
    var host: [String] = []

    @Option(
        help: ArgumentHelp(
            "An origin whose web pages may read and write; may be repeated. Without it, only the server's own.",
            valueName: "https://app.example")) var allowOrigin: [String] = []

    func policy() throws(TidemarkError) -> BrowserPolicy { try BrowserPolicy(allowedOrigins: allowOrigin, hosts: host) }
}
