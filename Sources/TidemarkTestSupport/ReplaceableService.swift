import Synchronization
public import TidemarkCore
public import TidemarkEngine
public import TidemarkEmbedded

/// A server whose file can be replaced while devices keep their transport, as in a restore.
public final class ReplaceableService: SyncService {
    private let current: Mutex<EmbeddedStore>

    /// Makes a service that forwards everything to a store.
    public init(_ store: EmbeddedStore) { current = Mutex(store) }

    /// The store behind it.
    public var store: EmbeddedStore {
        get { current.withLock { $0 } }
        set { current.withLock { $0 = newValue } }
    }

    /// Answers one round of synchronisation.
    public func sync(zone: String, body: [UInt8]) async throws -> [UInt8] {
        try await store.sync(zone: zone, body: body)
    }

    /// The news for a device.
    public func news(zone: String, device: String, since tag: ZoneTag) async throws -> News? {
        try await store.news(zone: zone, device: device, since: tag)
    }

    /// Whether a request is to be held.
    public func hold(zone: String, body: [UInt8]) async throws -> Hold? { try await store.hold(zone: zone, body: body) }

    /// The listeners of the present store's commits.
    public var fanOut: FanOut { store.fanOut }

    /// The zone's present state.
    public func latest(zone: String) async throws -> ZoneRevision { try await store.latest(zone: zone) }

    /// Absorbs other programs' writes.
    public func look(zone: String) async throws { try await store.look(zone: zone) }

    /// A snapshot of the zone.
    public func snapshot(zone: String, since base: DeltaBase?) async throws -> SnapshotFile {
        try await store.snapshot(zone: zone, since: base)
    }

    /// The snapshot of a tag, if it still exists.
    public func snapshot(zone: String, tag: String) async throws -> SnapshotFile? {
        try await store.snapshot(zone: zone, tag: tag)
    }

    /// Reports that a snapshot has been sent.
    public func releaseSnapshot(_ snapshot: SnapshotFile) async { await store.releaseSnapshot(snapshot) }

    /// The statements that make the zone's tables.
    public func schema(zone: String) async throws -> [UInt8] { try await store.schema(zone: zone) }

    /// Compares ranges of a device's rows with the zone's.
    public func fingerprints(zone: String, body: [UInt8]) async throws -> [UInt8] {
        try await store.fingerprints(zone: zone, body: body)
    }

    /// The content hash of every table.
    public func digest(zone: String) async throws -> ZoneDigest { try await store.digest(zone: zone) }

    /// Whether the store answers.
    public func probe() async throws { try await store.probe() }
}
