import Foundation
import TidemarkCore

/// The permissions of a file that only the server's account may read.
package enum PrivateFile {
    private static let permissions: mode_t = 0o600

    /// Makes an empty private file, if there is none: SQLite's would have the mask's permissions, open to others.
    static func make(_ path: String) throws(TidemarkError) {
        let descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, permissions)
        if descriptor >= 0 {
            close(descriptor)
            return
        }
        let reason = errno
        // Closing a descriptor of a file that is there would release SQLite's locks on it.
        guard reason != EEXIST else { return }
        throw TidemarkError(
            .storageFailed, "The file \(path) cannot be made: \(String(cString: strerror(reason))).",
            fix: "Check that its folder exists and that the server's account may write there.")
    }

    /// Makes a folder that nobody else may enter; one that is there stays as it is.
    static func makeFolder(_ folder: URL) throws {
        try FileManager.default.createDirectory(
            at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    }

    /// Whether every account of the machine can read a file.
    package static func isOpenToAll(_ path: String) -> Bool {
        var file = stat()
        var folder = stat()
        let parent = URL(filePath: path).deletingLastPathComponent().path
        return stat(path, &file) == 0 && file.st_mode & 0o004 != 0 && stat(parent, &folder) == 0
            && folder.st_mode & 0o001 != 0
    }

    /// Takes all permissions of others from a database's file and its side files.
    static func narrow(_ path: String) throws(TidemarkError) {
        for path in [path, path + "-wal", path + "-shm"] {
            var status = stat()
            guard stat(path, &status) == 0, status.st_mode & 0o777 != permissions else { continue }
            guard chmod(path, permissions) != 0 else { continue }
            throw TidemarkError(
                .storageFailed,
                "Others may read \(path), and its permissions cannot be changed: \(String(cString: strerror(errno))).",
                fix: "Give the file to the server's account, for instance by chown.")
        }
    }
}
