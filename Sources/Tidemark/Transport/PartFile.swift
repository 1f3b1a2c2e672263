internal import Foundation
internal import TidemarkCore

/// A file that appears under its name only when it is complete and durable.
///
/// Until then its name has the suffix `.part`. Every function works on a thread that may block.
struct PartFile: Sendable {
    private let path: String
    private let part: String
    private let handle: FileHandle

    init(path: String) async throws {
        let part = path + ".part"
        self.path = path
        self.part = part
        handle = try await blocking {
            // Other users must not read the rows, even in a folder like /tmp.
            let descriptor = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
            guard descriptor >= 0 else { throw Self.unwritable(part, String(cString: strerror(errno))) }
            return FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        }
    }

    /// The free bytes of the file's disk; nil if the system does not say.
    var freeBytes: Int64? {
        var disk = statvfs()
        guard statvfs(part, &disk) == 0 else { return nil }
        return Int64(clamping: UInt64(disk.f_bavail)).multipliedReportingOverflow(by: Int64(disk.f_frsize)).partialValue
    }

    func write(_ bytes: [UInt8]) async throws {
        try await blocking { [handle, part] in
            do { try handle.write(contentsOf: Data(bytes)) } catch {
                throw Self.unwritable(part, error.localizedDescription)
            }
        }
    }

    func empty() async throws {
        try await blocking { [handle, part] in
            do {
                try handle.truncate(atOffset: 0)
                try handle.seek(toOffset: 0)
            } catch { throw Self.unwritable(part, error.localizedDescription) }
        }
    }

    /// Makes the file durable and renames it, replacing any existing file.
    func commit() async throws {
        try await blocking { [handle, part, path] in
            do {
                try handle.synchronize()
                try handle.close()
            } catch { throw Self.unwritable(part, error.localizedDescription) }
            guard rename(part, path) == 0 else { throw Self.unwritable(path, String(cString: strerror(errno))) }
        }
    }

    /// Removes the part; if that fails, the next download empties it.
    func discard() async { await blocking { [part] in _ = unlink(part) } }

    static func unwritable(_ path: String, _ reason: String) -> TidemarkError {
        let folder = URL(fileURLWithPath: path).deletingLastPathComponent().path
        return TidemarkError(
            FileManager.default.fileExists(atPath: folder) ? .storageFailed : .unusableFile,
            "Cannot write \(path): \(reason).",
            fix: "Check that the directory exists and can be written, and that the disk has room.")
    }
}
