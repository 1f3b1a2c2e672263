public import Tidemark
public import TidemarkCore

/// A transport that forwards every call it does not override.
public protocol ForwardingTransport: Transport {
    /// The next transport.
    var real: InProcessTransport { get }
}

extension ForwardingTransport {
    /// Forwards a round.
    public func sync(zone: String, body: [UInt8]) async throws -> [UInt8] {
        try await real.sync(zone: zone, body: body)
    }

    /// Forwards a comparison.
    public func fingerprints(zone: String, body: [UInt8]) async throws -> [UInt8] {
        try await real.fingerprints(zone: zone, body: body)
    }

    /// Forwards a download.
    public func snapshot(
        zone: String, since base: DeltaBase?, to path: String,
        progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void
    ) async throws { try await real.snapshot(zone: zone, since: base, to: path, progress: progress) }

    /// Forwards the request for the schema.
    public func schema(zone: String) async throws -> [UInt8] { try await real.schema(zone: zone) }

    /// Forwards the question about a record.
    public func history(zone: String, table: String, key: String) async throws -> [UInt8] {
        try await real.history(zone: zone, table: table, key: key)
    }
}
