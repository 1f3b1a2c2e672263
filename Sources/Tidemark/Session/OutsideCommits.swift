import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// Polls for commits of other programs.
///
/// SQLite's `data_version` tells a connection that others have committed since its last poll, but not
/// how often. All changes captured between two polls become one change set. So frequent polls combine
/// fewer transactions. Without polls, the changes are sent with the next sync.
extension SyncEngine {
    private static let pollPause = Duration.milliseconds(100)

    /// Starts to poll for commits of other programs, until ``stop()``.
    package func watchOutside() {
        guard watching == nil else { return }
        watching = Task { [weak self] in
            while !Task.isCancelled {
                // The next sync reports an error of the file or a lock.
                _ = try? await self?.takeOutsideCommits()
                do { try await Task.sleep(for: Self.pollPause) } catch { return }
            }
        }
    }

    /// Drains captured changes if another connection has committed since the last poll; returns whether there were any.
    @discardableResult package func takeOutsideCommits() async throws -> Bool {
        let lastVersion = lastDataVersion
        let commits = commits
        let environment = environment
        let (version, isTaken) = try await database.writeWithoutTransaction { db in
            let version = try Int64.fetchOne(db, sql: "PRAGMA data_version")
            guard version != lastVersion else { return (version, false) }
            return (version, try Self.takeCaptured(db, commits: commits, environment: environment))
        }
        if version != lastVersion { commits.signal.advance() }
        lastDataVersion = version
        if isTaken { commits.wakeForEdit() }
        return isTaken
    }

    private static func takeCaptured(_ db: Database, commits: CommitObserver, environment: Environment) throws -> Bool {
        let hasCaptured = try Bool.fetchOne(db, cached: "SELECT EXISTS (SELECT 1 FROM tidemark_capture)")
        guard hasCaptured == true else { return false }
        var isTaken = false
        try db.inTransaction(.immediate) {
            let file = try DeviceFile(db)
            // The next sync adapts altered tables and drains before that, or reports their problem.
            guard !FitSchema.isNeeded(file), file.tables.problems.isEmpty else { return .rollback }
            try EngineConnection.prepare(db, schema: file.schema)
            try DrainCapture(db: db, schema: file.schema).drain(
                boundaries: commits.takeBoundaries(), now: environment.now(), newID: environment.newID)
            isTaken = true
            return .commit
        }
        return isTaken
    }

    /// Divides a parked change set of other programs into independent parts.
    ///
    /// Each part becomes a change set of its own; uncontested parts are retried. The parts of a change set that was too
    /// large to send go together up to a size.
    ///
    /// - Returns: The remaining conflicts: contested parts, and parts that no longer fit the rows.
    /// - Throws: ``TidemarkCore/TidemarkError`` if a transaction of the app made it, if all its records
    ///   depend on each other, or if it depends on another parked change set.
    public func divide(_ conflict: String) async throws -> [Conflict] {
        let parked = try await database.typingStorage { [commits, environment, limits] in
            try await database.writeWithoutTransaction { db in
                let boundaries = commits.takeBoundaries()
                try Self.fit(db, at: boundaries, in: environment)
                var parked: [String] = []
                try db.inTransaction(.immediate) {
                    parked = try DivideConflict(
                        db: db, schema: DeviceFile(db).schema, limits: limits, now: environment.now(),
                        newID: environment.newID
                    ).divide(conflict, boundaries: boundaries)
                    return .commit
                }
                return parked
            }
        }
        commits.wakeForEdit()
        let ids = Set(parked)
        return try await conflicts().filter { ids.contains($0.id) }
    }
}
