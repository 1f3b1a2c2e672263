public import TidemarkCore
public import TidemarkEngine

/// Requests of a test, which acts as the owner of every zone.
extension SyncService {
    /// Answers a sync request.
    public func sync(_ access: ZoneAccess, body: [UInt8]) async throws -> [UInt8] {
        try await answer(ZoneRequest(.sync(body), access: access)).text
    }

    /// Answers a sync request.
    public func sync(zone: String, body: [UInt8]) async throws -> [UInt8] { try await sync(.local(zone), body: body) }

    /// Answers a conditional GET.
    public func news(zone: String, device: String, since tag: ZoneTag) async throws -> News? {
        try await news(.local(zone), device: device, since: tag)
    }

    /// Compares ranges of rows.
    public func fingerprints(zone: String, body: [UInt8]) async throws -> [UInt8] {
        try await answer(ZoneRequest(.fingerprints(body), access: .local(zone))).text
    }

    /// Returns a snapshot of the zone.
    public func snapshot(zone: String, since base: DeltaBase?) async throws -> SnapshotFile {
        try await snapshot(.local(zone), since: base)
    }

    /// Returns the snapshot of a tag, if it still exists.
    public func snapshot(zone: String, tag: String) async throws -> SnapshotFile? {
        try await snapshot(.local(zone), tag: tag)
    }

    /// Returns the statements that create the zone's tables.
    public func schema(zone: String) async throws -> [UInt8] { try await schema(.local(zone)).json }

    /// Computes the content hash of every table.
    public func digest(zone: String) async throws -> ZoneDigest { try await digest(.local(zone)) }

    /// Returns the zone's latest revision.
    public func latest(zone: String) async throws -> ZoneRevision { try await latest(.local(zone)) }
}
