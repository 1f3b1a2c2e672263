package import Foundation
import TidemarkCore

/// A temporary folder beside a new file, for building that file before an atomic rename.
///
/// The folder is on the same disk, so a rename puts the finished file in place at once. Its name
/// contains a UUID, so it never collides with an existing file, and only its owner may read it
/// (mode 0700). The process that creates it holds a lock on it. The system releases the lock when
/// that process ends, so the next process that builds the same file removes abandoned folders.
package struct ScratchFolder: Sendable {
    private let folder: String
    private let lock: Int32

    /// Creates the folder for a new file at `path`; `advice` says what to do if there is one.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` `unusableFile` if `path`, its `-wal` or its `-journal`
    ///   exists or the parent directory does not; `storageFailed` if the folder cannot be created.
    package init(for path: String, id: UUID, advice: String = "Choose another name; nothing is overwritten.") throws {
        // SQLite would apply a leftover log of another file to the new one.
        let suffix = ["", "-wal", "-journal"].first { FileManager.default.fileExists(atPath: path + $0) }
        if let suffix { throw TidemarkError(.unusableFile, "\(path)\(suffix) exists already.", fix: advice) }
        Self.removeLeftovers(of: path)
        folder = "\(path).\(id.uuidString.lowercased())"
        // Rename only once it is locked: another process would remove an unlocked folder as abandoned.
        let new = folder + ".new"
        guard mkdir(new, 0o700) == 0 else { throw TidemarkError.unwritable(new) }
        lock = open(new, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        // On a file system without locks, no folder is ever removed as abandoned.
        if lock >= 0 { flock(lock, LOCK_EX | LOCK_NB) }
        guard rename(new, folder) == 0 else {
            defer {
                if lock >= 0 { close(lock) }
                rmdir(new)
            }
            throw TidemarkError.unwritable(folder)
        }
    }

    package func path(_ name: String) -> String { "\(folder)/\(name)" }

    /// Moves a finished file out of the folder to `path`; throws if a file has appeared there, or the disk fails.
    package func place(_ name: String, at path: String) throws {
        try FileManager.default.moveItem(atPath: self.path(name), toPath: path)
    }

    package func remove() {
        Self.remove(folder)
        if lock >= 0 { close(lock) }
    }

    private static func remove(_ folder: String) {
        do { try FileManager.default.removeItem(atPath: folder) } catch {
            // A leftover folder is harmless, and its name says which file it belongs to.
            return
        }
    }

    /// Removes folders for the same file that killed processes left behind.
    private static func removeLeftovers(of path: String) {
        let file = URL(fileURLWithPath: path)
        let parent = file.deletingLastPathComponent().path
        let stem = file.lastPathComponent + "."
        do {
            for name in try FileManager.default.contentsOfDirectory(atPath: parent)
            where name.hasPrefix(stem) && UUID(uuidString: String(name.dropFirst(stem.count))) != nil {
                let folder = "\(parent)/\(name)"
                let descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                guard descriptor >= 0 else { continue }
                if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { remove(folder) }
                close(descriptor)
            }
        } catch {
            // Leftovers cost disk space only; an unreadable parent fails later, with a proper error.
            return
        }
    }
}
