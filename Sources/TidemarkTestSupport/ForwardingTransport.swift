public import Tidemark
public import TidemarkCore

/// A way to the server that passes on what it does not change itself.
public protocol ForwardingTransport: Transport {
    /// The way that it stands in front of.
    var real: InProcessTransport { get }
}

extension ForwardingTransport {
    /// Passes a round on.
    public func sync(zone: String, body: [UInt8]) async throws -> [UInt8] {
        try await real.sync(zone: zone, body: body)
    }

    /// Passes a comparison on.
    public func fingerprints(zone: String, body: [UInt8]) async throws -> [UInt8] {
        try await real.fingerprints(zone: zone, body: body)
    }

    /// Passes a download on.
    public func snapshot(
        zone: String,
        since base: DeltaBase?,
        to path: String,
        progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void
    ) async throws { try await real.snapshot(zone: zone, since: base, to: path, progress: progress) }

    /// Passes the question for the schema on.
    public func schema(zone: String) async throws -> [UInt8] { try await real.schema(zone: zone) }

    /// Passes the question for the content hash on.
    public func digest(zone: String) async throws -> ZoneDigest { try await real.digest(zone: zone) }
}
