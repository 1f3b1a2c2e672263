public import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// A copy of a zone's file, page by page, while servers and other programs continue to write.
///
/// It includes Tidemark's bookkeeping, so a server can serve it.
public struct ZoneBackup: Sendable {
    /// The latest revision in the copy.
    public let revision: Int64
    /// The rows of the synced tables.
    public let rows: Int

    /// The pages per call of `progress`: 4 MB at the usual page size.
    private static let pagesPerStep: CInt = 1_024

    /// Copies a zone's file and checks the copy; leaves no file if it is interrupted.
    ///
    /// - Parameters:
    ///   - path: The zone's file; a server may serve it meanwhile.
    ///   - out: The path of the copy; no file may exist there.
    ///   - id: A random id for the scratch folder beside `out`.
    ///   - progress: Receives the copied pages and the total; may throw to stop.
    /// - Throws: ``TidemarkCore/TidemarkError``, `DatabaseError`, or the error of `progress`.
    public init(
        of path: String, at out: String, id: UUID, progress: @escaping (_ done: Int, _ total: Int) throws -> Void
    ) throws {
        let scratch = try ScratchFolder(for: out, id: id)
        defer { scratch.remove() }
        let copy = scratch.path("file")
        try TidemarkError.translatingStorageErrors(of: path) {
            try Self.copy(path, to: copy, check: { try Self.requireZone(path, $0) }, progress)
        }
        self = try TidemarkError.translatingStorageErrors(of: out) { try ZoneBackup(checking: copy) }
        try scratch.place("file", at: out)
    }

    /// Reads a file without changing it.
    static func reading<Result>(_ path: String, _ body: (Database) throws -> Result) throws -> Result {
        let file = try DatabaseQueue(path: path, configuration: .waiting(readonly: true))
        let result = try file.read(body)
        try file.close()
        return result
    }

    /// Copies the pages of one commit; `check` looks at the file first.
    static func copy(
        _ path: String, to copy: String, check: (Database) throws -> Void,
        _ progress: @escaping (_ done: Int, _ total: Int) throws -> Void
    ) throws {
        let source = try DatabaseQueue(path: path, configuration: .waiting(readonly: true))
        let target = try DatabaseQueue(path: copy)
        // One transaction on the source, so that all pages belong to one commit.
        try source.read { from in
            try check(from)
            try target.writeWithoutTransaction { to in
                try from.backup(to: to, pagesPerStep: pagesPerStep) {
                    try progress($0.completedPageCount, $0.totalPageCount)
                }
            }
        }
        // Switch the write-ahead log off, so that the copy is one file; a server switches it on again.
        try target.writeWithoutTransaction { try $0.execute(sql: "PRAGMA journal_mode = DELETE") }
        try target.close()
        try source.close()
    }

    private static func requireZone(_ path: String, _ db: Database) throws {
        guard try !db.tableExists("tidemark_zone") else { return }
        let isDevice = try db.tableExists("tidemark_device")
        throw TidemarkError(
            .unusableFile, isDevice ? "\(path) is a device's file, no server's." : "\(path) was never served.",
            fix: isDevice
                ? "Sync it, so that the server has all its changes."
                : "Copy a file without Tidemark's tables with `sqlite3 FILE \".backup OUT\"`.")
    }

    /// Checks that a server can serve the copy.
    private init(checking copy: String) throws {
        var configuration = Configuration()
        configuration.readonly = true
        configuration.prepareDatabase { ProgramFunctions.addStandIns(declaredIn: $0) }
        let file = try DatabaseQueue(path: copy, configuration: configuration)
        (revision, rows) = try file.read { db in
            let problem = try String.fetchOne(db, sql: "PRAGMA quick_check(1)") ?? "ok"
            guard problem == "ok" else {
                throw TidemarkError(
                    .fileDamaged, "The file is damaged, and so is its copy, which was not kept: \(problem).",
                    fix: "Keep the file and older backups; see fileDamaged in ERRORS.md.")
            }
            let tables = try SchemaIntrospection.syncedSchema(in: db).tables
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
