public import TidemarkCore

/// Transports messages between a device and its server, without reading them.
///
/// Every function throws ``TidemarkError``: the server's error if it sent one, otherwise
/// ``TidemarkCore/ErrorCode/unreachable`` or ``TidemarkCore/ErrorCode/invalidResponse``. Safe to call from any task.
public protocol Transport: Sendable {
    /// Sends a sync request and returns the answer's decompressed JSON.
    func sync(zone: String, body: [UInt8]) async throws -> [UInt8]

    /// Asks for revisions that a device with the rows of `tag` lacks: a conditional GET.
    ///
    /// - Returns: The same decompressed JSON as ``sync(zone:body:)``; nil if nothing is new.
    /// - Throws: ``TidemarkCore/ErrorCode/fullRequestRequired`` if only ``sync(zone:body:)`` can answer,
    ///   besides the errors of every function.
    func news(zone: String, device: String, since tag: ZoneTag) async throws -> [UInt8]?

    /// Sends ranges of rows to compare and returns the answer's decompressed JSON.
    func fingerprints(zone: String, body: [UInt8]) async throws -> [UInt8]

    /// Downloads the zone's snapshot and writes it, decompressed, to a new file at `path`.
    ///
    /// With `base`, the server may send a delta; the file's header says so. With
    /// ``TidemarkCore/DeltaBase/nothing``, the file has all rows, perhaps of an older revision.
    ///
    /// `progress` gets the compressed bytes received so far, and their total if known. Both restart if
    /// the server has another file after a broken connection.
    func snapshot(
        zone: String, since base: DeltaBase?, to path: String,
        progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void) async throws

    /// Fetches the statements that create the zone's tables, as decompressed JSON.
    func schema(zone: String) async throws -> [UInt8]

    /// Fetches the changes of one record, newest first, as decompressed JSON.
    ///
    /// `key` is percent-encoded, as it stands in the path `/tables/{table}/{key}/history`.
    func history(zone: String, table: String, key: String) async throws -> [UInt8]

    /// Listens to the server's events about a zone, until the connection ends.
    ///
    /// - Parameters:
    ///   - zone: The zone.
    ///   - device: The listening device's id; the server may push small changes to it.
    ///   - revision: The device's revision; the server begins with newer ones.
    ///   - heard: Called with every event; it must not block.
    /// - Throws: ``TidemarkCore/TidemarkError`` if the connection is refused or breaks.
    func listen(zone: String, device: String, from revision: ZoneRevision?, heard: @Sendable (PushEvent) -> Void)
        async throws

    /// Returns a number that changes with the token of the credentials; nil without a token.
    ///
    /// It holds in this process only, and does not reveal the token.
    func credentialsMark() async -> Int?
}

extension Transport {
    /// Returns nil: by default a transport has no credentials.
    public func credentialsMark() async -> Int? { nil }

    /// Downloads the snapshot of all rows.
    public func snapshot(
        zone: String, to path: String, progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void
    ) async throws { try await snapshot(zone: zone, since: nil, to: path, progress: progress) }

    /// Throws: by default a transport has no conditional GET, and the device sends the whole request.
    public func news(zone: String, device: String, since tag: ZoneTag) async throws -> [UInt8]? {
        throw TidemarkError(
            .unknownPath, "This way to the server carries no short questions.",
            fix: "Nothing is lost: the device asks in full.")
    }

    /// Throws: by default a transport has no histories, and the device keeps both versions as a conflict.
    public func history(zone: String, table: String, key: String) async throws -> [UInt8] {
        throw TidemarkError(
            .unknownPath, "This way to the server carries no histories of records.",
            fix: "Nothing is lost: values that may be edits become conflicts.")
    }

    /// Throws: by default a transport has no events, and the device asks at intervals.
    public func listen(zone: String, device: String, from revision: ZoneRevision?, heard: @Sendable (PushEvent) -> Void)
        async throws
    {
        throw TidemarkError(
            .unknownPath, "This way to the server carries no events.",
            fix: "Nothing is lost: the device asks now and then.")
    }
}

/// An event that the server sends to a listening device.
public enum PushEvent: Hashable, Sendable {
    /// The connection is alive.
    case alive
    /// The zone has reached this revision.
    case moved(ZoneRevision)
    /// The zone has reached a new revision by this change.
    case changed(PushedChange)
    /// The zones of the user, or the user's roles in them, have changed.
    case zonesChanged
    /// The server shuts down; listen again after this pause.
    case bye(retryMilliseconds: Int?)
}

/// A change that the server pushes without a request.
public struct PushedChange: Hashable, Sendable {
    /// The zone's revision after the change.
    public let end: ZoneRevision
    /// The tag of the rows to which the change applies; a device with other rows must ask.
    public let since: ZoneTag
    /// The JSON that ``Transport/news(zone:device:since:)`` would return to such a device.
    public let answer: [UInt8]

    /// Makes a change.
    public init(end: ZoneRevision, since: ZoneTag, answer: [UInt8]) {
        self.end = end
        self.since = since
        self.answer = answer
    }
}
