import ArgumentParser
import TidemarkCore
import TidemarkServer
import TidemarkTerminal

/// The options of `tidemark serve` about encrypted connections.
struct EncryptionOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "A PEM file with the server's certificate, then those of its authorities.",
            discussion: "With --tls-key, the server speaks TLS 1.2 or newer. It reads both files at its start.",
            valueName: "file")) var tlsCertificate: String?

    @Option(help: ArgumentHelp("A PEM file with the certificate's private key.", valueName: "file")) var tlsKey: String?

    @Option(
        help: ArgumentHelp(
            "The address of a proxy that encrypts in front of the server; may be repeated.",
            discussion: """
                Requests of other machines are refused. The last address in the proxy's X-Forwarded-For is the \
                client's.
                """,
            valueName: "address")
    ) var behindProxy: [String] = []

    func validate() throws {
        guard (tlsCertificate != nil) == (tlsKey != nil) else {
            throw ValidationError("--tls-certificate and --tls-key belong together.")
        }
        guard tlsCertificate == nil || behindProxy.isEmpty else {
            throw ValidationError("Either the server encrypts, by --tls-certificate, or a proxy, by --behind-proxy.")
        }
    }

    var encryption: ListenSafety.Encryption { tlsCertificate != nil ? .tls : behindProxy.isEmpty ? .none : .proxy }

    /// Reads the certificate and the key; nil without them.
    func tls() throws(TidemarkError) -> ServerTLS? {
        guard let tlsCertificate, let tlsKey else { return nil }
        return try ServerTLS(certificate: tlsCertificate, key: tlsKey)
    }

    /// Returns advice about the files: their permissions, and a certificate that ends soon.
    func warnings(about tls: ServerTLS?) -> [String] {
        guard let tls else { return [] }
        let days = (tls.expires - SystemClock.milliseconds()) / 86_400_000
        guard days < Self.daysOfNotice else { return tls.warnings }
        let end = AccessTexts.day(tls.expires)
        let state = days < 0 ? "has ended on \(end), and devices refuse it" : "ends on \(end)"
        return tls.warnings + ["the certificate \(state); renew it, then start the server again"]
    }

    /// The number of days before a certificate's end from which the operator hears of it.
    private static let daysOfNotice = 14

    /// Parses the addresses of the proxies; nil without them.
    func proxies() throws(TidemarkError) -> ProxyPeers? { behindProxy.isEmpty ? nil : try ProxyPeers(behindProxy) }
}
