import Foundation
import TidemarkCore

/// A file that the user names, and that must be there.
enum ExistingFile {
    /// Makes sure that a path leads to a file which this user may read.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` `unusableFile` that tells apart a file that is not
    ///   there, a folder, and one that this user may not read; `fix` is the cure for the first.
    static func require(_ path: String, fix: String = "Check the path.") throws(TidemarkError) {
        var status = stat()
        guard stat(path, &status) == 0 else {
            let reason = errno
            guard reason != ENOENT, reason != ENOTDIR else {
                throw TidemarkError(.unusableFile, "There is no file \(path).", fix: fix)
            }
            throw unreadable(path, "Cannot look for", reason)
        }
        guard status.st_mode & S_IFMT != S_IFDIR else {
            throw TidemarkError(.unusableFile, "\(path) is a folder, not a file.", fix: "Name the SQLite file in it.")
        }
        guard access(path, R_OK) == 0 else { throw unreadable(path, "Cannot read", errno) }
    }

    private static func unreadable(_ path: String, _ what: String, _ reason: Int32) -> TidemarkError {
        TidemarkError(
            .unusableFile,
            "\(what) \(path): \(String(cString: strerror(reason))).",
            fix: "Check the permissions of the file and of the folders above it."
        )
    }
}
