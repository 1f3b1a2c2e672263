import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// Leaves a file that the server refuses as it was: opening it for the server changes its journal mode to WAL.
struct FormerJournal {
    private let path: String
    /// Whether the file keeps a rollback journal, as byte 18 of SQLite's header says.
    private let hasRollbackJournal: Bool

    /// Looks at a file before it is opened.
    init(path: String) {
        self.path = path
        // SQLite reports what prevents reading, also of a folder.
        let header = try? FileHandle(forReadingFrom: URL(fileURLWithPath: path)).read(upToCount: 20)
        hasRollbackJournal = header.map { $0.count == 20 && $0[18] == 1 } ?? false
    }

    /// Runs the adoption; if it throws, closes the file and restores its journal mode, unless a program has it open.
    func restoringIfRefused<Result>(_ pool: DatabasePool, _ adopt: () throws -> Result) throws -> Result {
        do { return try TidemarkError.translatingStorageErrors(of: path, adopt) } catch {
            guard hasRollbackJournal else { throw error }
            // The refusal is what the operator has to know, and not why the mode could not be restored.
            try? restore(pool)
            throw error
        }
    }

    private func restore(_ pool: DatabasePool) throws {
        try pool.close()
        try DatabaseQueue(path: path).writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA journal_mode = DELETE")
        }
    }
}
