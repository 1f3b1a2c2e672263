import Synchronization
import Tidemark
import TidemarkCore

/// A transport that counts requests.
final class CountingTransport: Transport {
    private let other: HTTPTransport
    private let count = Mutex(Count())

    private struct Count {
        var requests = 0
        var snapshots = 0
        var lastBody: [UInt8] = []
        var lastTag: ZoneTag?
    }

    init(_ other: HTTPTransport) { self.other = other }

    /// The number of requests.
    var requests: Int { count.withLock { $0.requests } }
    /// The number of requests for a file.
    var snapshots: Int { count.withLock { $0.snapshots } }

    /// The last request of a round, before it is compressed.
    var lastBody: [UInt8] { count.withLock { $0.lastBody } }

    /// The tag of the last conditional GET.
    var lastTag: ZoneTag? { count.withLock { $0.lastTag } }

    func sync(zone: String, body: [UInt8]) async throws -> [UInt8] {
        count.withLock { $0.lastBody = body }
        tick()
        return try await other.sync(zone: zone, body: body)
    }

    func news(zone: String, device: String, since tag: ZoneTag) async throws -> [UInt8]? {
        count.withLock { $0.lastTag = tag }
        tick()
        return try await other.news(zone: zone, device: device, since: tag)
    }

    func fingerprints(zone: String, body: [UInt8]) async throws -> [UInt8] {
        tick()
        return try await other.fingerprints(zone: zone, body: body)
    }

    func snapshot(zone: String, since base: DeltaBase?, to path: String, progress: @Sendable (Int64, Int64?) -> Void)
        async throws
    {
        tick()
        count.withLock { $0.snapshots += 1 }
        try await other.snapshot(zone: zone, since: base, to: path, progress: progress)
    }

    func schema(zone: String) async throws -> [UInt8] {
        tick()
        return try await other.schema(zone: zone)
    }

    func digest(zone: String) async throws -> ZoneDigest {
        tick()
        return try await other.digest(zone: zone)
    }

    func listen(zone: String, device: String, from known: ZoneRevision?, heard: @Sendable (PushEvent) -> Void)
        async throws
    { try await other.listen(zone: zone, device: device, from: known, heard: heard) }

    private func tick() { count.withLock { $0.requests += 1 } }
}
