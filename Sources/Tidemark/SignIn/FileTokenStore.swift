internal import Foundation
internal import TidemarkCore

/// Tokens in a JSON file that only its owner can read.
///
/// ```json
/// {"https://sync.example.org:443": {"token": "tmd_…", "user": "anna", "issued": 1, "expires": 2, …}}
/// ```
///
/// Several processes may use the file at the same time. They lock the file with the suffix `.lock`
/// beside it, which stays empty.
public struct FileTokenStore: TokenStore {
    private let path: String

    /// The permissions of group and others; the file may have none of them.
    private static let foreignPermissions: mode_t = 0o077
    /// The largest file that is read, in bytes.
    private static let bytesMax = 1 << 20

    /// Makes a store in the file at `path`; nothing is read or written yet.
    public init(path: String) { self.path = path }

    /// Reads the token of a server; nil if the file is missing.
    public func token(of origin: String) throws -> StoredToken? { try read()[origin] }

    /// Replaces the file by one with the new token.
    ///
    /// The caller has the lock for replacing tokens.
    public func store(_ token: StoredToken?, of origin: String) throws {
        var tokens = try read()
        guard tokens[origin] != token else { return }
        tokens[origin] = token
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        try write(try encoder.encode(tokens))
    }

    /// Takes a lock of the system on the lock file.
    @concurrent public func lock(_ purpose: TokenLock.Purpose) async throws -> TokenLock? {
        switch purpose {
        case .sending:
            // Without the file there is no token to send, and a request alone makes no files.
            guard FileManager.default.fileExists(atPath: path) else { return TokenLock {} }
            return try await lockFile(LOCK_SH)
        case .replacing(let waits):
            try makeFolder()
            return try await lockFile(waits ? LOCK_EX : LOCK_EX | LOCK_NB)
        }
    }

    private func lockFile(_ operation: Int32) async throws -> TokenLock? {
        let lockPath = path + ".lock"
        return try await blocking { () throws(TidemarkError) in
            let descriptor = open(lockPath, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
            guard descriptor >= 0 else { throw PartFile.unwritable(lockPath, String(cString: strerror(errno))) }
            while flock(descriptor, operation) != 0 {
                let code = errno
                if code == EINTR { continue }
                close(descriptor)
                guard code == EWOULDBLOCK else { throw PartFile.unwritable(lockPath, String(cString: strerror(code))) }
                return nil
            }
            return TokenLock { close(descriptor) }
        }
    }

    // MARK: The file

    private var folder: String { URL(fileURLWithPath: path).deletingLastPathComponent().path }

    private func makeFolder() throws(TidemarkError) {
        do {
            try FileManager.default.createDirectory(
                atPath: folder,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
        } catch { throw PartFile.unwritable(folder, error.localizedDescription) }
    }

    private func read() throws(TidemarkError) -> [String: StoredToken] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            guard errno == ENOENT else { throw unusable("cannot be read: \(String(cString: strerror(errno)))") }
            return [:]
        }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { throw unusable("is no file") }
        guard status.st_mode & Self.foreignPermissions == 0 else {
            throw TidemarkError(
                .unusableFile,
                "Other users of this machine can read the tokens in \(path).",
                fix: "Run `chmod 600 \(path)`. If others use this machine, sign out and sign in again."
            )
        }
        guard status.st_size <= Self.bytesMax else { throw unusable("is too long") }
        do {
            let data = try handle.readToEnd() ?? Data()
            return try JSONDecoder().decode([String: StoredToken].self, from: data)
        } catch {
            // The error's text may hold a part of the file.
            throw unusable("is damaged")
        }
    }

    private func write(_ data: Data) throws(TidemarkError) {
        let new = path + ".new"
        let descriptor = open(new, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw PartFile.unwritable(new, String(cString: strerror(errno))) }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        // The file may be a leftover of a crash, with other permissions.
        guard fchmod(descriptor, 0o600) == 0 else { throw PartFile.unwritable(new, String(cString: strerror(errno))) }
        do {
            try handle.write(contentsOf: data)
            try handle.synchronize()
        } catch { throw PartFile.unwritable(new, error.localizedDescription) }
        guard rename(new, path) == 0 else { throw PartFile.unwritable(path, String(cString: strerror(errno))) }
        try flushFolder()
    }

    /// Makes the new name durable.
    private func flushFolder() throws(TidemarkError) {
        let descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw PartFile.unwritable(path, String(cString: strerror(errno))) }
        defer { close(descriptor) }
        // Some file systems flush no folders; they say so with EINVAL.
        guard fsync(descriptor) == 0 || errno == EINVAL else {
            throw PartFile.unwritable(path, String(cString: strerror(errno)))
        }
    }

    private func unusable(_ reason: String) -> TidemarkError {
        TidemarkError(
            .unusableFile,
            "The file with this machine's tokens, \(path), \(reason).",
            fix: "Remove it, and sign in again."
        )
    }
}
