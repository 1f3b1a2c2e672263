package import GRDB
import TidemarkCore

/// Settings of a connection; the file and other connections do not see them.
package enum EngineConnection {
    /// Configures a connection so that each commit survives a power cut; GRDB chooses `NORMAL` with WAL.
    package static func flushCommits(of db: Database) throws {
        let mode = planted(PlantedBug.answersBeforeFlush) ? "NORMAL" : "EXTRA"
        try db.execute(sql: "PRAGMA synchronous = \(mode)")
    }

    /// Adds the SQL functions to a connection on which no statement runs.
    package static func addFunctions(to db: Database) throws {
        try SQLFunctions.register(on: db)
        try FingerprintFunctions.register(on: db)
    }

    /// The smallest page cache, in KiB; with SQLite's 2 MB, a large answer reads and writes the same pages repeatedly.
    private static let cacheKiB = 4 << 10

    /// Gives a connection caches that hold a large answer.
    package static func widenCaches(of db: Database) throws {
        try db.execute(sql: "PRAGMA temp.cache_size = -\(cacheKiB)")
        // A negative size is in KiB, a positive one in pages. A larger cache stays.
        let size = try Int.fetchOne(db, sql: "PRAGMA main.cache_size") ?? 0
        let page = try Int.fetchOne(db, sql: "PRAGMA main.page_size") ?? 4_096
        guard (size < 0 ? -size : size * page >> 10) < cacheKiB else { return }
        try db.execute(sql: "PRAGMA main.cache_size = -\(cacheKiB)")
    }
}
