import Foundation
import TidemarkCore

/// Checks files that the user names and that must exist.
enum ExistingFile {
    /// Throws `unusableFile` unless a path names a file that this user may read; `fix` is the advice if it is missing.
    static func require(_ path: String, fix: String = "Check the path.") throws(TidemarkError) {
        guard access(path, F_OK) == 0 else {
            let reason = errno
            guard reason != ENOENT, reason != ENOTDIR else {
                throw TidemarkError(.unusableFile, "There is no file \(path).", fix: fix)
            }
            throw unreadable(path, problem: "Cannot look for", reason: reason)
        }
        var isFolder: ObjCBool = false
        guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder), !isFolder.boolValue else {
            throw TidemarkError(.unusableFile, "\(path) is a folder, not a file.", fix: "Name a file in it.")
        }
        guard access(path, R_OK) == 0 else { throw unreadable(path, problem: "Cannot read", reason: errno) }
    }

    private static func unreadable(_ path: String, problem: String, reason: Int32) -> TidemarkError {
        TidemarkError(
            .unusableFile, "\(problem) \(path): \(String(cString: strerror(reason))).",
            fix: "Check the permissions of the file and of the folders above it.")
    }
}
