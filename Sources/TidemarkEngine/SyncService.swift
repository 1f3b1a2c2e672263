public import TidemarkCore

/// The operations of a server: the interface between HTTP and the engine.
///
/// Safe to call from any task. Every function throws ``TidemarkError`` for an error that a client
/// can correct. Any other error is a defect or a failing disk, and its details go to the log only.
public protocol SyncService: Sendable {
    /// Answers a round of synchronisation, a conditional GET, writes of a client without rows, or a comparison of rows.
    ///
    /// - Returns: The answer. All verdicts in it are durable.
    /// - Throws: ``TidemarkCore/TidemarkError`` when the request is refused; it changed nothing.
    func answer(_ request: ZoneRequest) async throws -> ZoneAnswer

    /// The contacts of devices that ``keepContacts()`` has not yet written.
    ///
    /// The service records the answers to devices, and its caller the messages on streams.
    var contacts: ContactBook { get }

    /// Writes the contacts of devices, in one statement a database; the server calls it once a minute and at its end.
    ///
    /// - Throws: The failure of a database, whose contacts stay in memory for the next call.
    func keepContacts() async throws

    /// Returns a snapshot of the zone: a gzip file, readable until ``releaseSnapshot(_:)``; nil if it no longer exists.
    func snapshot(_ access: ZoneAccess, _ wanted: WantedSnapshot) async throws -> SnapshotFile?

    /// Releases a snapshot after the server sent it or failed to send it.
    func releaseSnapshot(_ snapshot: SnapshotFile) async

    /// Returns the statements that create the zone's tables, and metadata for a device.
    func schema(_ access: ZoneAccess) async throws -> SchemaDocument

    /// Computes the content hash of every table.
    func digest(_ access: ZoneAccess) async throws -> ZoneDigest

    /// Answers a question about a zone's rows and log in one read transaction, which includes what other programs
    /// have committed.
    ///
    /// - Throws: What the question throws, or ``TidemarkCore/TidemarkError`` if the zone cannot be read.
    func read<Answer: Sendable>(_ access: ZoneAccess, _ question: ZoneQuestion<Answer>) async throws -> Answer

    /// Forgets a device in zones: its contact, the notes for it, and the nonce that its next request would follow.
    ///
    /// With `user`, it forgets the device only where it is that user's. Without one it forgets a device of any user,
    /// which only an owner of each zone may ask for.
    ///
    /// The map of its ids and the verdicts stay, so nothing is done twice. If the device comes back, the server
    /// tells it to take a new identity. Zones that do not exist stay as they are.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` when a zone cannot be written; the other zones may be done.
    func forget(device: String, of user: String?, in zones: [String]) async throws

    /// Returns when the store can answer requests: `GET /readyz`.
    ///
    /// - Throws: The reason if it cannot.
    func probe() async throws

    /// The zones that could not be opened at their last use, a line each with the reason, for the operator.
    var unservedZones: [String] { get }

    /// The fan-out to which the store publishes its commits, and those of other nodes.
    var fanOut: FanOut { get }

    /// Returns the latest revisions of zones, without those that do not exist.
    func latest(of accesses: [ZoneAccess]) async throws -> [ZoneRevision]

    /// Absorbs and publishes rows that other programs have written into a zone.
    ///
    /// The server calls it periodically for every zone that has listeners.
    func look(zone: String) async throws
}

extension SyncService {
    /// Does writes of a client without rows that stand or fall together, as ``answer(_:)`` does.
    ///
    /// - Returns: An answer for each write, in order.
    /// - Throws: ``Problem`` if they are refused; then nothing was done.
    package func write(_ writes: ClientWrites, _ access: ZoneAccess) async throws -> [WriteAnswer] {
        let answer = try await answer(ZoneRequest(.write(writes), access: access))
        guard case .writes(let answers) = answer.content else { throw Self.otherAnswer }
        return try answers.get()
    }

    /// Answers the conditional GET of a device that has the rows of a tag and nothing to send.
    ///
    /// It changes nothing, and mostly reads no table.
    ///
    /// - Returns: The news; nil when the device has to send a round of synchronisation.
    /// - Throws: ``TidemarkCore/TidemarkError`` when there is no such zone, or it cannot be read.
    public func news(_ access: ZoneAccess, device: String, since tag: ZoneTag) async throws -> News? {
        let answer = try await answer(ZoneRequest(.news(device: device, since: tag), access: access))
        guard case .news(let news) = answer.content else { throw Self.otherAnswer }
        return news
    }

    /// Returns a snapshot of the zone: with `base` perhaps a delta.
    public func snapshot(_ access: ZoneAccess, since base: DeltaBase?) async throws -> SnapshotFile {
        guard let file = try await snapshot(access, .since(base)) else { throw Self.otherAnswer }
        return file
    }

    /// Returns the snapshot file of a tag if it still exists, even if the zone has newer revisions.
    public func snapshot(_ access: ZoneAccess, tag: String) async throws -> SnapshotFile? {
        try await snapshot(access, .tagged(tag))
    }

    private static var otherAnswer: TidemarkError {
        TidemarkError(.internalFailure, "The store's answer is another one.", fix: "Please report this.")
    }

    /// None: all zones share one database.
    public var unservedZones: [String] { [] }

    /// Forgets a device of any user in a zone; only an owner of the zone may ask for it.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` when the zone cannot be written.
    public func forgetDevice(_ access: ZoneAccess, device: String) async throws {
        try await forget(device: device, of: nil, in: [access.zone])
    }

    /// Returns a zone's latest revision.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/unknownZone`` when there is no such zone.
    public func latest(_ access: ZoneAccess) async throws -> ZoneRevision {
        guard let revision = try await latest(of: [access]).first else {
            throw TidemarkError.unknownZone
        }
        return revision
    }
}

/// The answer to a conditional GET.
public enum News: Hashable, Sendable {
    /// The device has the latest revision.
    case nothing
    /// The answer that ``SyncService/sync(_:body:)`` would give, JSON, and the device's tag after
    /// it applies the answer.
    case answer([UInt8], ZoneTag)
}

/// The snapshot that a sender wants.
public enum WantedSnapshot: Hashable, Sendable {
    /// One of the latest revision, or with a base a delta with the changed records only, if the log reaches back to the
    /// base and a delta is smaller.
    ///
    /// After ``TidemarkCore/DeltaBase/nothing``, it may be behind by
    /// ``TidemarkCore/Limits/snapshotRevisionsBehindMax`` revisions.
    case since(DeltaBase?)
    /// The one with this ``SnapshotFile/tag``.
    case tagged(String)
}

/// The answer to `GET /schema`: the statements that create a zone's tables, and metadata for a device.
public struct SchemaDocument: Hashable, Sendable {
    /// The answer, JSON.
    public let json: [UInt8]

    /// Makes the answer for a zone; `tables` are its statements as JSON.
    package init(zone: String, _ state: ZoneState, _ schema: SyncSchema, tables: String) {
        let shape = schema.shape.split(separator: "\n").map { JSONText.quote(String($0)) }
        let text = JSONText.object([
            ("zone", JSONText.quote(zone)), ("epoch", JSONText.quote(state.epoch)),
            ("revision", String(state.revision)), ("schema", JSONText.quote(state.schema)),
            ("shape", JSONText.array(shape)), ("tables", tables),
        ])
        json = Array(text.utf8)
    }
}

/// A compressed SQLite file on the server's disk that holds a zone at one revision.
public struct SnapshotFile: Hashable, Sendable {
    /// The path.
    public let path: String
    /// The length, in bytes.
    public let byteCount: Int64
    /// The zone's epoch.
    public let epoch: String
    /// The zone's revision.
    public let revision: Int64
    /// The SHA-256 of the compressed bytes, in lower-case hexadecimal.
    public let hash: String
    /// The base revision of a delta, which holds only rows changed after it; nil for all rows.
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

    /// Identifies the file's bytes: files with the same tag are equal, even from different servers.
    public var tag: String { "\(epoch)-\(revision)-\(hash.prefix(32))" }
}
