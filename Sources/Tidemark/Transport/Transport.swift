public import TidemarkCore

/// The way from a device to its server.
///
/// Carries messages and knows nothing of what they say.
///
/// Every function throws ``TidemarkError``: the server's own when it answered with one, and
/// ``TidemarkCore/ErrorCode/unreachable`` or ``TidemarkCore/ErrorCode/invalidResponse`` otherwise.
/// Safe to call from any task.
public protocol Transport: Sendable {
    /// Sends one round and returns the answer's JSON, decompressed.
    func sync(zone: String, body: [UInt8]) async throws -> [UInt8]

    /// Asks what is new for a device that has the rows of a tag, in as few bytes as the way knows.
    ///
    /// - Returns: The answer that ``sync(zone:body:)`` would bring, JSON, decompressed; nil when
    ///   nothing is new.
    /// - Throws: ``TidemarkCore/ErrorCode/fullRequestRequired`` when only ``sync(zone:body:)`` can
    ///   tell, besides what every function throws.
    func news(zone: String, device: String, since tag: ZoneTag) async throws -> [UInt8]?

    /// Sends ranges of rows to be compared and returns the answer's JSON, decompressed.
    func fingerprints(zone: String, body: [UInt8]) async throws -> [UInt8]

    /// Downloads the zone's snapshot and writes it, decompressed, to a new file at `path`; with
    /// `base`, perhaps only what has changed since, as the file says. With
    /// ``TidemarkCore/DeltaBase/nothing`` it has all rows, perhaps not of the latest revision.
    ///
    /// `progress` is told the compressed bytes received so far, and how many there will be if
    /// known. Both begin anew if the server has another file when a broken connection is made
    /// again.
    func snapshot(
        zone: String,
        since base: DeltaBase?,
        to path: String,
        progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void
    ) async throws

    /// The statements that make the zone's tables, JSON, decompressed.
    func schema(zone: String) async throws -> [UInt8]

    /// The content hash of every table on the server.
    func digest(zone: String) async throws -> ZoneDigest

    /// Listens to what the server tells about a zone, until the connection ends.
    ///
    /// - Parameters:
    ///   - zone: The zone.
    ///   - device: Who listens; the server may send it small changes themselves.
    ///   - known: What the device is at; the server begins with what is newer.
    ///   - heard: Told every event; must not wait.
    /// - Throws: ``TidemarkCore/TidemarkError`` when the connection is refused or breaks.
    func listen(zone: String, device: String, from known: ZoneRevision?, heard: @Sendable (PushEvent) -> Void)
        async throws
}

extension Transport {
    /// Downloads the snapshot of all rows.
    public func snapshot(
        zone: String,
        to path: String,
        progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void
    ) async throws { try await snapshot(zone: zone, since: nil, to: path, progress: progress) }

    /// Says that this way knows no short questions: the device asks in full, which is enough.
    public func news(zone: String, device: String, since tag: ZoneTag) async throws -> [UInt8]? {
        throw TidemarkError(
            .unknownPath,
            "This way to the server carries no short questions.",
            fix: "Nothing is lost: the device asks in full."
        )
    }

    /// Says that nothing can be heard this way: the device asks now and then, which is enough.
    public func listen(zone: String, device: String, from known: ZoneRevision?, heard: @Sendable (PushEvent) -> Void)
        async throws
    {
        throw TidemarkError(
            .unknownPath,
            "This way to the server carries no events.",
            fix: "Nothing is lost: the device asks now and then."
        )
    }
}

/// What a server tells a device that listens.
public enum PushEvent: Hashable, Sendable {
    /// The connection is alive.
    case alive
    /// The zone has moved on to this revision.
    case moved(ZoneRevision)
    /// The zone has moved on, and this is how.
    case changed(PushedChange)
    /// The server goes away; listen again after so many milliseconds.
    case bye(retryMilliseconds: Int?)
}

/// What has changed in a zone, as a server tells it unasked.
public struct PushedChange: Hashable, Sendable {
    /// What the zone is at with it.
    public let end: ZoneRevision
    /// What a device has for whom it is; others have to ask.
    public let since: ZoneTag
    /// The answer that ``Transport/news(zone:device:since:)`` would bring such a device, JSON.
    public let answer: [UInt8]

    /// Makes a change.
    public init(end: ZoneRevision, since: ZoneTag, answer: [UInt8]) {
        self.end = end
        self.since = since
        self.answer = answer
    }
}
