import Foundation
import GRDB
import TidemarkCore
import TidemarkGzip
public import TidemarkEngine
import TidemarkSQL

/// The snapshots of the zone: compressed files to send, and a file to ship inside an app.
extension EmbeddedStore {
    /// Returns a snapshot of the zone at its latest revision, or with `base` a delta if that is less.
    ///
    /// Builds the file if there is none yet. A device without rows may get an older snapshot, within
    /// ``TidemarkCore/Limits/snapshotRevisionsBehindMax``.
    public func snapshot(_ access: ZoneAccess, _ wanted: WantedSnapshot) async throws -> SnapshotFile? {
        try check(access.zone)
        let base: DeltaBase?
        switch wanted {
        case .tagged(let tag): return await snapshots.snapshot(tag: tag)
        case .since(let known): base = known
        }
        return try await withSettledZone { [self] state, schema in
            let behind = limits.snapshotRevisionsBehindMax
            return try await snapshots.file(since: base, at: state, behind: behind) { [zone = path] path, base in
                let builder = SnapshotBuilder(zonePath: zone, schema: schema, since: base)
                return try await runOnOwnThread { try builder.build(at: path) }
            }
        }
    }

    /// Releases a snapshot after its last use.
    public func releaseSnapshot(_ snapshot: SnapshotFile) async { await snapshots.release(snapshot) }

    /// Opens a file that is a zone already, with the tables and policies that it stores; a server may serve it, too.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` if the file is no zone, and errors of the initializer with an epoch.
    public convenience init(servedFile path: String) throws {
        var configuration = Configuration.waiting(readonly: true)
        configuration.prepareDatabase { ProgramFunctions.addStandIns(declaredIn: $0) }
        let localTables = try TidemarkError.translatingStorageErrors(of: path) {
            try DatabaseQueue(path: path, configuration: configuration).read { db in
                guard try db.tableExists("tidemark_zone") else { throw ZoneTransaction.notAZone }
                return try SchemaIntrospection.localTables(in: db)
            }
        }
        // The store does not use it, because the file has an epoch.
        let unusedEpoch = UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
        try self.init(path: path, newEpoch: unusedEpoch, excluding: localTables)
    }

    /// Copies the zone's rows at its latest revision into a new SQLite file at a path, where it replaces another.
    ///
    /// The file is ``snapshot(zone:since:)`` before compression; other programs' changes become a revision first.
    public func writeSnapshot(to path: String) async throws {
        _ = try await withSettledZone { [self] _, schema in
            let builder = SnapshotBuilder(zonePath: self.path, schema: schema)
            removeIfThere(path)
            return try await runOnOwnThread { try builder.copy(to: path) }
        }
    }

    /// How often the store tries to build a snapshot while other programs write.
    private static let settleAttemptsMax = 20

    /// Logs other programs' changes, then runs `body` on the latest revision; runs it again while it returns nil.
    private func withSettledZone<Result: Sendable>(_ body: (ZoneState, SyncSchema) async throws -> Result?) async throws
        -> Result
    {
        for _ in 0..<Self.settleAttemptsMax {
            let (state, schema) = try await file.committing { transaction, current in
                try transaction.absorbOutsideChanges()
                let state = try transaction.head().state
                // The snapshot carries the fingerprint; this computes and stores it at most once.
                _ = try transaction.fingerprint(at: state.revision)
                return (state, current.schema)
            }
            do { if let result = try await body(state, schema) { return result } } catch let GzipError.fileFailed(
                operation, _, reason)
            {
                throw TidemarkError(
                    .storageFailed, "The server cannot \(operation) a snapshot's file: \(reason).",
                    fix: "Make room on the server's disk, beside the zone's file; then try again.")
            } catch { throw TidemarkError.translateStorageError(error, of: "the zone's file or its snapshot") }
        }
        throw TidemarkError(
            .unavailable, "Other programs write to the zone's file without a pause.", fix: "Try again in a moment.")
    }
}

/// Runs blocking work on a thread of its own.
func runOnOwnThread<Result: Sendable>(_ work: @escaping @Sendable () throws -> Result) async throws -> Result {
    try await withCheckedThrowingContinuation { continuation in
        Thread.detachNewThread { continuation.resume(with: Swift.Result { try work() }) }
    }
}
