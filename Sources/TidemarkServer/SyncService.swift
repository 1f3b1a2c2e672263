public import TidemarkCore

/// What a server offers to whoever carries its messages: the seam between HTTP and the engine.
///
/// Safe to call from any task. Every function throws ``TidemarkError`` for what a client can mend;
/// any other error is a defect or a failing disk, and its details are for the log alone.
public protocol SyncService: Sendable {
    /// Answers one round of synchronisation.
    ///
    /// - Parameters:
    ///   - zone: The zone's name.
    ///   - body: The request, JSON, decompressed and within ``Limits/requestBytesMax``.
    /// - Returns: The answer, JSON. What it acknowledges is durable.
    /// - Throws: ``TidemarkCore/TidemarkError`` when the request is refused; it changed nothing.
    func sync(zone: String, body: [UInt8]) async throws -> [UInt8]

    /// What is new for a device that has the rows of a tag, and waits for no answer.
    ///
    /// Nothing is changed by it, and mostly no table is read.
    ///
    /// - Parameters:
    ///   - zone: The zone's name.
    ///   - device: Who asks.
    ///   - tag: What the device has.
    /// - Returns: The news; nil when only ``sync(zone:body:)`` can tell.
    /// - Throws: ``TidemarkCore/TidemarkError`` when there is no such zone, or it cannot be read.
    func news(zone: String, device: String, since tag: ZoneTag) async throws -> News?

    /// Whether a request is to be held for news; it is handled by ``sync(zone:body:)`` afterwards.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` when the request is refused.
    func hold(zone: String, body: [UInt8]) async throws -> Hold?

    /// Compares ranges of a device's rows with the zone's, so that differing records are found.
    ///
    /// - Parameters:
    ///   - zone: The zone's name.
    ///   - body: The request, JSON, decompressed and within ``Limits/requestBytesMax``.
    /// - Returns: The answer, JSON.
    /// - Throws: ``TidemarkCore/TidemarkError`` when the request is refused.
    func fingerprints(zone: String, body: [UInt8]) async throws -> [UInt8]

    /// A snapshot of the zone as a gzip file that stays readable until ``releaseSnapshot(_:)``.
    ///
    /// With `base`, it may be a delta: only what has changed since then. Whether it is depends on
    /// which is smaller, and on whether the log reaches back so far. With
    /// ``TidemarkCore/DeltaBase/nothing`` it may be somewhat behind, as
    /// ``TidemarkCore/Limits/snapshotRevisionsBehindMax`` allows.
    func snapshot(zone: String, since base: DeltaBase?) async throws -> SnapshotFile

    /// The snapshot file of a tag, if it is still there, also when the zone has moved on since.
    ///
    /// It stays readable until ``releaseSnapshot(_:)``.
    func snapshot(zone: String, tag: String) async throws -> SnapshotFile?

    /// Tells that a snapshot has been sent, or that sending it failed.
    func releaseSnapshot(_ snapshot: SnapshotFile) async

    /// The statements that make the zone's tables, with what a device needs to follow them, JSON.
    func schema(zone: String) async throws -> [UInt8]

    /// The content hash of every table.
    func digest(zone: String) async throws -> ZoneDigest

    /// Returns when the store answers, so that requests can be: `GET /readyz`.
    ///
    /// - Throws: Why not.
    func probe() async throws

    // MARK: Push

    /// Whom the store tells what it commits, or hears that another node has committed.
    var fanOut: FanOut { get }

    /// What a zone is at.
    func latest(zone: String) async throws -> ZoneRevision

    /// Looks whether other programs have written into a zone, takes that in and tells.
    ///
    /// Called again and again for every zone that somebody listens to.
    func look(zone: String) async throws
}

/// What a device hears that asks what is new.
public enum News: Hashable, Sendable {
    /// The zone is as the device has it.
    case nothing
    /// The answer that ``SyncService/sync(zone:body:)`` would give, JSON, and what the device has
    /// when it has applied it.
    case answer([UInt8], ZoneTag)
}

/// A SQLite file holding a zone at one revision, compressed, on the server's disk.
public struct SnapshotFile: Hashable, Sendable {
    /// Where it is.
    public let path: String
    /// Its length, in bytes.
    public let byteCount: Int64
    /// The zone's epoch.
    public let epoch: String
    /// The revision that it holds.
    public let revision: Int64
    /// The SHA-256 of its bytes, as they are on disk, lower-case hexadecimal.
    public let hash: String
    /// The revision after which rows changed that it holds; nil: it holds all.
    public let since: Int64?

    /// Makes a description of a file.
    public init(path: String, byteCount: Int64, epoch: String, revision: Int64, hash: String, since: Int64? = nil) {
        self.path = path
        self.byteCount = byteCount
        self.epoch = epoch
        self.revision = revision
        self.hash = hash
        self.since = since
    }

    /// What tells the file's bytes from all others: two files of one tag are equal byte for byte,
    /// whichever server built them.
    public var tag: String { "\(epoch)-\(revision)-\(hash.prefix(32))" }
}
