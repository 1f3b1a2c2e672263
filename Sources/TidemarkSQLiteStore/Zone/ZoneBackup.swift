public import Foundation
import GRDB
import TidemarkCore
import TidemarkSQLite

/// A copy of a zone's file, page by page, while servers and other programs go on writing.
///
/// It has everything that the file has, Tidemark's bookkeeping included, so it can be served again.
public struct ZoneBackup: Sendable {
    /// The latest revision in the copy.
    public let revision: Int64
    /// The rows of the synced tables.
    public let rows: Int

    /// The pages that are copied between two looks at `progress`: 4 MB at the usual size.
    private static let pagesPerStep: CInt = 1_024

    /// Copies a zone's file and checks the copy; cut short, it leaves no file.
    ///
    /// - Parameters:
    ///   - path: The zone's file; it may be served meanwhile.
    ///   - out: Where the copy will be; nothing may be there.
    ///   - id: A random id for the folder beside `out` in which the copy is made.
    ///   - progress: Told how many pages are copied, and how many there are; may throw to stop.
    /// - Throws: ``TidemarkCore/TidemarkError``, `DatabaseError`, or what `progress` throws.
    public init(
        of path: String,
        at out: String,
        id: UUID,
        progress: @escaping (_ done: Int, _ total: Int) throws -> Void
    ) throws {
        let scratch = try ScratchFolder(for: out, id: id)
        defer { scratch.remove() }
        let copy = scratch.path("file")
        try TidemarkError.typingStorage(of: path) { try Self.copy(path, to: copy, progress) }
        self = try TidemarkError.typingStorage(of: out) { try ZoneBackup(checking: copy) }
        try scratch.place("file", at: out)
    }

    private static func copy(
        _ path: String,
        to copy: String,
        _ progress: @escaping (_ done: Int, _ total: Int) throws -> Void
    ) throws {
        var configuration = Configuration()
        configuration.readonly = true
        configuration.busyMode = .timeout(10)
        let source = try DatabaseQueue(path: path, configuration: configuration)
        let target = try DatabaseQueue(path: copy)
        // One transaction on the source, so that all pages are of one commit.
        try source.read { from in
            guard try from.tableExists("tidemark_zone") else { throw try notAZone(path, from) }
            try target.writeWithoutTransaction { to in
                try from.backup(to: to, pagesPerStep: pagesPerStep) {
                    try progress($0.completedPageCount, $0.totalPageCount)
                }
            }
        }
        // One file without a log; a server switches the log on again.
        try target.writeWithoutTransaction { try $0.execute(sql: "PRAGMA journal_mode = DELETE") }
        try target.close()
        try source.close()
    }

    private static func notAZone(_ path: String, _ db: Database) throws -> TidemarkError {
        let isDevice = try db.tableExists("tidemark_device")
        return TidemarkError(
            .unusableFile,
            isDevice ? "\(path) is a device's file, no server's." : "\(path) was never served.",
            fix: isDevice
                ? "Sync it; then the server has all that it has."
                : "A file without Tidemark's tables is copied with `sqlite3 FILE \".backup OUT\"`."
        )
    }

    /// Looks at a copy as whoever restores it will.
    private init(checking copy: String) throws {
        var configuration = Configuration()
        configuration.readonly = true
        let file = try DatabaseQueue(path: copy, configuration: configuration)
        (revision, rows) = try file.read { db in
            let problem = try String.fetchOne(db, sql: "PRAGMA quick_check(1)") ?? "ok"
            guard problem == "ok" else {
                throw TidemarkError(
                    .fileDamaged,
                    "The file is damaged, and so is its copy, which was not kept: \(problem).",
                    fix: "Keep the file and older backups; ERRORS.md says under fileDamaged more."
                )
            }
            let tables = try SchemaIntrospection.synced(in: db).tables
            let rows = try tables.reduce(0) { sum, table in
                let sql = "SELECT count(*) FROM \(SQLText.name(table.name))"
                return try sum + (Int.fetchOne(db, sql: sql) ?? 0)
            }
            let revision = try Int64.fetchOne(db, sql: "SELECT revision FROM tidemark_zone")
            return (revision ?? 0, rows)
        }
        try file.close()
    }
}
