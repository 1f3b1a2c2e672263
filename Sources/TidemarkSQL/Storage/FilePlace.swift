import Foundation
package import GRDB
import GRDBSQLite
package import TidemarkCore

/// The device and inode numbers of a database's file, `-wal` and `-shm` when it was opened.
///
/// A connection keeps using the files that it opened, even after another process deletes, moves or
/// replaces them. Its later commits are then lost when it closes. SQLite's own
/// `SQLITE_FCNTL_HAS_MOVED` checks the main file only, but a deleted `-wal` loses commits as well.
package struct FilePlace: Hashable, Sendable {
    private struct Entry: Hashable {
        let path: String
        let device: UInt64
        let inode: UInt64

        /// Looks up a path; nil if no file is there.
        init?(_ path: String) {
            var status = stat()
            guard stat(path, &status) == 0 else { return nil }
            self.path = path
            device = UInt64(status.st_dev)
            inode = UInt64(status.st_ino)
        }
    }

    private let entries: [Entry]
    private let role: String

    /// Records the files of a connection's main database; an in-memory database has none.
    ///
    /// Call this after the connection has read, because SQLite creates the side files then.
    ///
    /// - Parameters:
    ///   - db: The connection.
    ///   - role: The file's role at the server, as the subject of a message.
    package init(of db: Database, role: String = "The zone's file") {
        self.role = role
        let path = sqlite3_db_filename(db.sqliteConnection, "main").map { String(cString: $0) }
        entries = ["", "-wal", "-shm"].compactMap { Entry((path ?? "") + $0) }
    }

    /// Checks that the same files are still at their paths, with one system call per file.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` `storageFailed`, which names the server's file by
    ///   its role only, since clients read it.
    package func requireUnmoved() throws(TidemarkError) {
        guard let entry = entries.first(where: { Entry($0.path) != $0 }) else { return }
        let side = ["-wal", "-shm"].first { entry.path.hasSuffix($0) }
        throw TidemarkError(
            .storageFailed,
            """
            \(role)\(side.map { " lacks its \($0), which" } ?? "") was deleted, moved or \
            replaced while the server had it open; the server commits nothing any more.
            """,
            fix: """
                At the server: stop it, put the file back together with its -wal, or a backup, and \
                start it again (BACKUP.md). Nothing was changed, and unsent changes are kept.
                """
        )
    }
}
