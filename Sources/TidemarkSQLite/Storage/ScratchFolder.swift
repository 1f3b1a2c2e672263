package import Foundation
import TidemarkCore

/// A folder beside a file that is being made, for all that the file is made of.
///
/// It is on the same disk, so that the file gets its name at once when it is whole. It has a name
/// that nothing else has, so that no file which is there already is read or removed, and nobody
/// else may look into it. Its maker holds it locked; the system takes the lock back when that
/// process ends, however it ends, so the next one that makes the file removes what was left.
package struct ScratchFolder: Sendable {
    private let folder: String
    private let lock: Int32

    /// Makes the folder for a file at `path`, if nothing is there yet.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` `unusableFile` when there is, `storageFailed` when
    ///   the folder cannot be made.
    package init(for path: String, id: UUID) throws {
        // SQLite would take a log that is left of another file for the new one's.
        let taken = ["", "-wal", "-journal"].first { FileManager.default.fileExists(atPath: path + $0) }
        if let taken {
            throw TidemarkError(
                .unusableFile,
                "\(path)\(taken) exists already.",
                fix: """
                    Choose another name; nothing is overwritten. A file that has joined is synced \
                    with `tidemark device sync`.
                    """
            )
        }
        Self.removeLeftovers(of: path)
        folder = "\(path).\(id.uuidString.lowercased())"
        // It gets its name when it is locked: until then another process would take it for left
        // over.
        let new = folder + ".new"
        guard mkdir(new, 0o700) == 0 else { throw Self.unwritable(new) }
        lock = open(new, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        // Where the file system has no locks, nothing is ever taken for left over.
        if lock >= 0 { flock(lock, LOCK_EX | LOCK_NB) }
        guard rename(new, folder) == 0 else {
            let error = Self.unwritable(folder)
            if lock >= 0 { close(lock) }
            rmdir(new)
            throw error
        }
    }

    /// The path of a file in it.
    package func path(_ name: String) -> String { "\(folder)/\(name)" }

    /// Gives a finished file in it the path that the folder was made for.
    ///
    /// - Throws: When something is there meanwhile, or the disk fails.
    package func place(_ name: String, at path: String) throws {
        try FileManager.default.moveItem(atPath: self.path(name), toPath: path)
    }

    /// Removes the folder with everything in it.
    package func remove() {
        Self.remove(folder)
        if lock >= 0 { close(lock) }
    }

    private static func remove(_ folder: String) {
        do { try FileManager.default.removeItem(atPath: folder) } catch {
            // What the file was made of harms nobody who finds it, and its name says whose it is.
            return
        }
    }

    /// Removes the folders for the same file whose makers were killed.
    private static func removeLeftovers(of path: String) {
        let file = URL(fileURLWithPath: path)
        let parent = file.deletingLastPathComponent().path
        let stem = file.lastPathComponent + "."
        do {
            for name in try FileManager.default.contentsOfDirectory(atPath: parent)
            where name.hasPrefix(stem) && UUID(uuidString: String(name.dropFirst(stem.count))) != nil {
                let folder = "\(parent)/\(name)"
                let other = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                guard other >= 0 else { continue }
                if flock(other, LOCK_EX | LOCK_NB) == 0 { remove(folder) }
                close(other)
            }
        } catch {
            // Leftovers cost disk space only; a folder that cannot be read fails where it matters.
            return
        }
    }

    private static func unwritable(_ path: String) -> TidemarkError {
        let reason = String(cString: strerror(errno))
        let folder = URL(fileURLWithPath: path).deletingLastPathComponent().path
        return TidemarkError(
            FileManager.default.fileExists(atPath: folder) ? .storageFailed : .unusableFile,
            "Cannot write \(path): \(reason).",
            fix: "Check that the directory exists and can be written, and that the disk has room."
        )
    }
}
