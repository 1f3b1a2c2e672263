#if canImport(Darwin)
internal import Darwin
#elseif canImport(Musl)
internal import Musl
#else
internal import Glibc
#endif

/// A file descriptor with typed errors, closed at the latest when nobody holds it any more.
final class RawFile {
    private let path: String
    private var descriptor: Int32

    /// Opens a file that exists, to read it.
    init(reading path: String) throws(GzipError) {
        self.path = path
        descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Self.failure("open", path) }
    }

    /// Opens an empty file to write it, in place of one that may be there.
    init(replacing path: String) throws(GzipError) {
        self.path = path
        descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Self.failure("create", path) }
    }

    deinit { if descriptor >= 0 { _ = systemClose(descriptor) } }

    /// The next bytes, or nil at the end of the file.
    func read(bytesMax: Int) throws(GzipError) -> [UInt8]? {
        var code = 0
        let bytes = [UInt8](unsafeUninitializedCapacity: bytesMax) { buffer, count in
            repeat { code = systemRead(descriptor, buffer.baseAddress, bytesMax) } while code < 0 && errno == EINTR
            count = max(code, 0)
        }
        guard code >= 0 else { throw Self.failure("read", path) }
        return bytes.isEmpty ? nil : bytes
    }

    /// Writes all the bytes.
    func write(_ bytes: [UInt8]) throws(GzipError) {
        var written = 0
        while written < bytes.count {
            let code = bytes.withUnsafeBytes { buffer in
                systemWrite(descriptor, buffer.baseAddress.map { $0 + written }, buffer.count - written)
            }
            guard code >= 0 || errno == EINTR else { throw Self.failure("write", path) }
            written += max(code, 0)
        }
    }

    /// Closes the file, and tells when the system could not keep what was written.
    func close() throws(GzipError) {
        let code = systemClose(descriptor)
        descriptor = -1
        guard code == 0 else { throw Self.failure("write", path) }
    }

    /// Removes the file from its directory, or leaves it behind where the system refuses that.
    func remove() { unlink(path) }

    private static func failure(_ operation: String, _ path: String) -> GzipError {
        .fileFailed(operation: operation, path: path, reason: String(cString: strerror(errno)))
    }
}

// The system's functions by names that a method of the same name does not hide.
private let systemRead = read
private let systemWrite = write
private let systemClose = close
