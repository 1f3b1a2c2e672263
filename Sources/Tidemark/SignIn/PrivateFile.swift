internal import Foundation
internal import TidemarkCore
internal import TidemarkSQL

/// A small file that only its owner can read, replaced as a whole: a crash leaves the old content or the new one.
struct PrivateFile: Sendable {
    let path: String
    /// The permissions of group and others; the file may have none of them.
    private static let foreignPermissions: mode_t = 0o077
    /// The largest file that is read, in bytes.
    private static let bytesMax = 1 << 20

    /// The reason why a file cannot be used.
    enum Problem: Error {
        /// Other users of the machine can read it.
        case readableByOthers
        /// Anything else, as the end of a sentence.
        case unusable(String)
    }

    /// Reads the file; nil if it is missing.
    func read() throws(Problem) -> Data? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            guard errno == ENOENT else { throw .unusable("cannot be read: \(String(cString: strerror(errno)))") }
            return nil
        }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { throw .unusable("is no file") }
        guard status.st_mode & Self.foreignPermissions == 0 else { throw .readableByOthers }
        guard status.st_size <= Self.bytesMax else { throw .unusable("is too long") }
        do { return try handle.readToEnd() ?? Data() } catch { throw .unusable("cannot be read") }
    }

    /// Replaces the file durably by a value in JSON that people can read.
    func write(json value: some Encodable) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        let data = try encoder.encode(value)
        let new = path + ".new"
        let handle = try PartFile.open(new, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW)
        // The file may be a leftover of a crash, with other permissions.
        guard fchmod(handle.fileDescriptor, 0o600) == 0 else { throw TidemarkError.unwritable(new) }
        try PartFile.naming(new) {
            try handle.write(contentsOf: data)
            try handle.synchronize()
        }
        guard rename(new, path) == 0 else { throw TidemarkError.unwritable(path) }
        try flushFolder()
    }

    /// Makes the folder of the file, for its owner only.
    func makeFolder() throws(TidemarkError) {
        try PartFile.naming(folder) {
            try FileManager.default.createDirectory(
                atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        }
    }

    private var folder: String { URL(fileURLWithPath: path).deletingLastPathComponent().path }

    /// Makes the new name durable.
    private func flushFolder() throws(TidemarkError) {
        let descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw TidemarkError.unwritable(path) }
        defer { close(descriptor) }
        // Some file systems flush no folders; they say so with EINVAL.
        guard fsync(descriptor) == 0 || errno == EINVAL else { throw TidemarkError.unwritable(path) }
    }
}
