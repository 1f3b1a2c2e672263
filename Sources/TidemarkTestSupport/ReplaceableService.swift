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

    /// Answers one request.
    public func answer(_ request: ZoneRequest) async throws -> ZoneAnswer { try await store.answer(request) }

    /// The listeners of the present store's commits.
    public var fanOut: FanOut { store.fanOut }

    /// The zone's present state.
    public func latest(of accesses: [ZoneAccess]) async throws -> [ZoneRevision] {
        try await store.latest(of: accesses)
    }

    /// Absorbs other programs' writes.
    public func look(zone: String) async throws { try await store.look(zone: zone) }

    /// A snapshot of the zone.
    public func snapshot(_ access: ZoneAccess, _ wanted: WantedSnapshot) async throws -> SnapshotFile? {
        try await store.snapshot(access, wanted)
    }

    /// Reports that a snapshot has been sent.
    public func releaseSnapshot(_ snapshot: SnapshotFile) async { await store.releaseSnapshot(snapshot) }

    /// Answers a question about the zone.
    public func read<Answer: Sendable>(_ access: ZoneAccess, _ question: ZoneQuestion<Answer>) async throws -> Answer {
        try await store.read(access, question)
    }

    /// The statements that make the zone's tables.
    public func schema(_ access: ZoneAccess) async throws -> SchemaDocument { try await store.schema(access) }

    /// The content hash of every table.
    public func digest(_ access: ZoneAccess) async throws -> ZoneDigest { try await store.digest(access) }

    /// The contacts of the present store's devices.
    public var contacts: ContactBook { store.contacts }

    /// Writes the contacts.
    public func keepContacts() async throws { try await store.keepContacts() }

    /// Forgets a device.
    public func forget(device: String, of user: String?, in zones: [String]) async throws {
        try await store.forget(device: device, of: user, in: zones)
    }

    /// Whether the store answers.
    public func probe() async throws { try await store.probe() }
}
