import Foundation
package import GRDB
import GRDBSQLite
package import TidemarkCore

/// Which files lay under a database's names when a connection opened it: the file, its `-wal` and
/// its `-shm`.
///
/// A connection goes on with the files that it has opened, also when somebody has deleted or moved
/// them or put others in their place. What it commits then goes away with it. SQLite's own
/// `SQLITE_FCNTL_HAS_MOVED` looks at the file alone; a `-wal` that is gone loses commits as well.
package struct FilePlace: Hashable, Sendable {
    private struct Entry: Hashable {
        let path: String
        let device: UInt64
        let inode: UInt64

        /// Looks a path up; nil where nothing is.
        init?(_ path: String) {
            var status = stat()
            guard stat(path, &status) == 0 else { return nil }
            self.path = path
            device = UInt64(status.st_dev)
            inode = UInt64(status.st_ino)
        }
    }

    private let entries: [Entry]

    /// Notes where the main database of a connection lies; a database that is in no file lies
    /// nowhere, and cannot move.
    ///
    /// Call when the connection has read, so that SQLite has made the side files.
    package init(of db: Database) {
        let path = sqlite3_db_filename(db.sqliteConnection, "main").map { String(cString: $0) }
        entries = ["", "-wal", "-shm"].compactMap { Entry((path ?? "") + $0) }
    }

    /// Makes sure that the same files lie there still; costs a system call a file.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` `storageFailed`, which names the server's file by
    ///   its role only, since clients read it.
    package func requireUnmoved() throws(TidemarkError) {
        guard let moved = entries.first(where: { Entry($0.path) != $0 }) else { return }
        let side = ["-wal", "-shm"].first { moved.path.hasSuffix($0) }
        throw TidemarkError(
            .storageFailed,
            """
            The zone's file\(side.map { " lacks its \($0), which" } ?? "") was deleted, moved or \
            replaced while the server had it open; the server commits nothing any more.
            """,
            fix: """
                At the server: stop it, put the file back together with its -wal, or a backup, and \
                start it again (BACKUP.md). Nothing was changed, and what waits is kept.
                """
        )
    }
}
