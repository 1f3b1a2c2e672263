import ArgumentParser
import TidemarkCore
import TidemarkTerminal
import TidemarkTestSupport

/// `tidemark-dev relay`: a network link that the user can cut.
struct Relay: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Forward connections to a server: a network link that you can cut by stopping it.",
        discussion: """
            Use it to test offline work. Devices that joined through the relay lose the server when the relay stops, \
            and find it again when the relay starts on the same port.
            """)
    @Option(help: ArgumentHelp("Where to listen; port 0 takes a free one.", valueName: "host:port")) var listen =
        "127.0.0.1:0"
    @Option(help: ArgumentHelp("The server to forward to.", valueName: "host:port")) var to: String

    func run() async throws {
        try await Terminal.run {
            let from = try ListenAddress(listen)
            let target = try ListenAddress(to)
            let relay = TCPRelay(host: from.host, port: from.port, targetHost: target.host, targetPort: target.port)
            let port = try await relay.start()
            Terminal.line("relaying http://\(from.host):\(port) to \(to)")
            // Until the process is stopped.
            while !Task.isCancelled { try await Task.sleep(for: .seconds(3_600)) }
        }
    }
}
