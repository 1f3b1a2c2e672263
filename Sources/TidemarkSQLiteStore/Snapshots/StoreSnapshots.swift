import Foundation
import GRDB
public import TidemarkCore
import TidemarkGzip
public import TidemarkServer
import TidemarkSQLite
import TidemarkStore

/// The snapshots of the zone: files to send, and one to ship.
extension EmbeddedStore {
    /// A snapshot of the zone at its latest revision, built when there is none yet; with `base`, a
    /// delta where that is less.
    ///
    /// For whoever has nothing an older one will do, within
    /// ``TidemarkCore/Limits/snapshotRevisionsBehindMax``.
    public func snapshot(zone: String, since base: DeltaBase?) async throws -> SnapshotFile {
        try check(zone)
        return try await whenSettled { [self] state, schema in
            if let file = try await delta(since: base, at: state, schema) { return file }
            let builder = SnapshotBuilder(zonePath: path, schema: schema)
            let behind = base == .nothing ? limits.snapshotRevisionsBehindMax : 0
            return try await snapshots.snapshot(at: state, behind: behind) { path in
                try await apart { try builder.build(at: path) }
            }
        }
    }

    /// A file of what has changed since; nil where all rows are better.
    private func delta(since base: DeltaBase?, at state: ZoneState, _ schema: SyncSchema) async throws -> SnapshotFile?
    {
        guard let base, base.epoch == state.epoch, base.schema == state.schema, base.revision < state.revision else {
            return nil
        }
        let builder = SnapshotBuilder(zonePath: path, schema: schema, since: base)
        return try await snapshots.delta(since: base.revision, at: state) { path in
            try await apart { try builder.build(at: path) }
        }
    }

    /// The snapshot of a tag, if it is still there.
    public func snapshot(zone: String, tag: String) async throws -> SnapshotFile? {
        try check(zone)
        return await snapshots.snapshot(tag: tag)
    }

    /// Tells that nobody reads the snapshot any more.
    public func releaseSnapshot(_ snapshot: SnapshotFile) async { await snapshots.release(snapshot) }

    /// Opens a file that is a zone already, for work on it beside its server or without one.
    ///
    /// The file knows which of its tables are served, and their policies.
    ///
    /// - Parameter path: The zone's file.
    /// - Throws: ``TidemarkCore/TidemarkError`` when the file is no zone, and what opening it with
    ///   an epoch throws.
    public convenience init(servedFile path: String) throws {
        var configuration = Configuration()
        configuration.readonly = true
        configuration.busyMode = .timeout(10)
        let excluded = try TidemarkError.typingStorage(of: path) {
            try DatabaseQueue(path: path, configuration: configuration).read { db in
                guard try db.tableExists("tidemark_zone") else { throw ZoneTransaction.notAZone }
                return try SchemaIntrospection.unserved(in: db)
            }
        }
        // The file has its epoch.
        let none = UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
        try self.init(path: path, newEpoch: none, excluding: excluded)
    }

    /// Copies the zone's rows, as of its latest revision, into a new SQLite file: what
    /// ``snapshot(zone:since:)`` sends, not compressed.
    ///
    /// What other programs have written becomes a revision first.
    ///
    /// - Parameter path: Where the file will be; what is there is replaced.
    /// - Throws: ``TidemarkCore/TidemarkError``.
    public func writeSnapshot(to path: String) async throws {
        _ = try await whenSettled { [self] _, schema in
            let builder = SnapshotBuilder(zonePath: self.path, schema: schema)
            removeIfThere(path)
            return try await apart { try builder.copy(to: path) }
        }
    }

    /// Runs `body` on the zone's latest revision when that has all that others wrote, again while
    /// it says, by nil, that they have written meanwhile.
    private func whenSettled<Result: Sendable>(_ body: (ZoneState, SyncSchema) async throws -> Result?) async throws
        -> Result
    {
        for _ in 0..<20 {
            let (state, schema) = try await file.committing { transaction, served in
                try transaction.absorbOutsideChanges()
                let state = try transaction.zone()
                // The snapshot carries it; kept, so that it is computed at most once.
                _ = try transaction.fingerprint(at: state.revision)
                return (state, served.schema)
            }
            do { if let result = try await body(state, schema) { return result } } catch let GzipError.fileFailed(
                operation,
                _,
                reason
            ) {
                throw TidemarkError(
                    .storageFailed,
                    "The server cannot \(operation) a snapshot's file: \(reason).",
                    fix: "Make room on the server's disk, beside the zone's file; then try again."
                )
            } catch { throw TidemarkError.typed(error, of: "the zone's file or its snapshot") }
        }
        throw TidemarkError(
            .unavailable,
            "Other programs write to the zone's file without a pause.",
            fix: "Try again in a moment."
        )
    }
}

/// Runs work on a thread of its own: it is all disk and SQLite.
private func apart<Result: Sendable>(_ work: @escaping @Sendable () throws -> Result) async throws -> Result {
    try await withCheckedThrowingContinuation { continuation in
        Thread.detachNewThread { continuation.resume(with: Swift.Result { try work() }) }
    }
}
