internal import Synchronization
internal import TidemarkCore

/// The transport of one file of an account: it sends nothing unless the file's user is signed in.
final class AccountTransport: Transport {
    private let server: String
    /// The transport with the user's credentials; nil while nobody or another user is signed in.
    private let connected: Mutex<HTTPTransport?>

    init(server: String, _ transport: HTTPTransport?) {
        self.server = server
        connected = Mutex(transport)
    }

    /// Connects the file, or disconnects it with nil.
    func connect(_ transport: HTTPTransport?) { connected.withLock { $0 = transport } }

    private var transport: HTTPTransport {
        get throws {
            guard let transport = connected.withLock({ $0 }) else {
                throw TidemarkError(
                    .signInNeeded, "The user of this file is not signed in to \(server).",
                    fix: "Sign in. Changes made here are kept, and sent later.")
            }
            return transport
        }
    }

    func sync(zone: String, body: [UInt8]) async throws -> [UInt8] { try await transport.sync(zone: zone, body: body) }

    func news(zone: String, device: String, since tag: ZoneTag) async throws -> [UInt8]? {
        try await transport.news(zone: zone, device: device, since: tag)
    }

    func fingerprints(zone: String, body: [UInt8]) async throws -> [UInt8] {
        try await transport.fingerprints(zone: zone, body: body)
    }

    func snapshot(
        zone: String, since base: DeltaBase?, to path: String,
        progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void
    ) async throws { try await transport.snapshot(zone: zone, since: base, to: path, progress: progress) }

    func schema(zone: String) async throws -> [UInt8] { try await transport.schema(zone: zone) }

    func history(zone: String, table: String, key: String) async throws -> [UInt8] {
        try await transport.history(zone: zone, table: table, key: key)
    }

    func listen(zone: String, device: String, from revision: ZoneRevision?, heard: @Sendable (PushEvent) -> Void)
        async throws
    { try await transport.listen(zone: zone, device: device, from: revision, heard: heard) }

    func credentialsMark() async -> Int? { await connected.withLock({ $0 })?.credentialsMark() }
}
