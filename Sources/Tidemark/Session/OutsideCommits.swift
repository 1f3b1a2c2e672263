import Foundation
import GRDB
import TidemarkCore
import TidemarkSQLite

/// Commits of other programs, one by one.
///
/// SQLite tells a connection by `data_version` that others have committed since it last looked, not
/// how often. What was captured by then is one change set; so the more often somebody looks, the
/// fewer transactions go together. A look needs no network, and no look is needed: what nobody
/// noticed goes with the next sync.
extension SyncEngine {
    private static let lookPause = Duration.milliseconds(100)

    /// Begins to look for commits of other programs, until ``stop()``.
    package func watchOutside() {
        guard watching == nil else { return }
        watching = Task { [weak self] in
            while !Task.isCancelled {
                // What is wrong with the file, or who keeps it busy, is for the next sync to say.
                _ = try? await self?.takeOutsideCommits()
                do { try await Task.sleep(for: Self.lookPause) } catch { return }
            }
        }
    }

    /// Makes change sets of what was captured, if another connection has committed since the last
    /// look.
    ///
    /// - Returns: Whether anything was captured.
    @discardableResult package func takeOutsideCommits() async throws -> Bool {
        let seen = versionSeen
        let commits = commits
        let environment = environment
        let (version, isTaken) = try await database.writeWithoutTransaction { db in
            let version = try Int64.fetchOne(db, sql: "PRAGMA data_version")
            guard version != seen else { return (version, false) }
            return (version, try Self.takeCaptured(db, commits, environment))
        }
        versionSeen = version
        if isTaken { commits.wakeForEdit() }
        return isTaken
    }

    /// Makes change sets of what was captured, in a transaction of its own.
    private static func takeCaptured(_ db: Database, _ commits: CommitObserver, _ environment: Environment) throws
        -> Bool
    {
        guard try hasCaptured(db) else { return false }
        var isTaken = false
        try db.inTransaction(.immediate) {
            let file = try DeviceFile(db)
            // Altered tables are fitted by the next sync, which drains first.
            guard !FitSchema.isNeeded(file) else { return .rollback }
            try EngineConnection.prepare(db, schema: file.schema)
            try DrainCapture(db: db, schema: file.schema).drain(
                boundaries: commits.takeBoundaries(),
                now: environment.now(),
                newID: environment.newID
            )
            isTaken = true
            return .commit
        }
        return isTaken
    }

    private static func hasCaptured(_ db: Database) throws -> Bool {
        try Bool.fetchOne(db.cachedStatement(sql: "SELECT EXISTS (SELECT 1 FROM tidemark_capture)")) ?? false
    }

    /// Divides a parked change set that no known transaction made, and makes again what nobody
    /// contests: each part that does not depend on the others is a change set of its own.
    ///
    /// - Returns: The conflicts that remain of it: the parts that are contested, and those that do
    ///   not fit the rows any more.
    /// - Throws: ``TidemarkCore/TidemarkError`` when a transaction of the app made it, when all its
    ///   records depend on each other, or when it builds on one that is parked itself.
    public func divide(_ conflict: String) async throws -> [Conflict] {
        let newID = environment.newID
        let parts = try await database.typingStorage {
            try await database.write { db in
                try DivideConflict(db: db, schema: DeviceFile(db).schema).divide(conflict) {
                    newID().uuidString.lowercased()
                }
            }
        }
        for id in parts.uncontested {
            do { try await resolve(id, .retry) } catch is TidemarkError {
                // It stays in the conflicts, where it is shown; the others go on.
                continue
            }
        }
        // Where these transactions end is known to this process alone.
        try await database.writeWithoutTransaction { [commits, environment] db in
            _ = try Self.takeCaptured(db, commits, environment)
        }
        let ids = Set(parts.contested + parts.uncontested)
        return try await conflicts().filter { ids.contains($0.id) }
    }
}
