#if canImport(Darwin)
internal import Darwin
#elseif canImport(Musl)
internal import Musl
#else
internal import Glibc
#endif

/// A file descriptor with typed errors; the last reference closes it.
final class RawFile {
    private let path: String
    private var descriptor: Int32

    init(reading path: String) throws(GzipError) {
        self.path = path
        descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Self.failure("open", path) }
    }

    /// Opens an empty file for writing, replacing any existing file.
    init(replacing path: String) throws(GzipError) {
        self.path = path
        descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Self.failure("create", path) }
    }

    deinit { if descriptor >= 0 { _ = systemClose(descriptor) } }

    /// Returns the next bytes; nil at the end of the file.
    func read(bytesMax: Int) throws(GzipError) -> [UInt8]? {
        var code = 0
        let bytes = [UInt8](unsafeUninitializedCapacity: bytesMax) { buffer, count in
            repeat { code = systemRead(descriptor, buffer.baseAddress, bytesMax) } while code < 0 && errno == EINTR
            count = max(code, 0)
        }
        guard code >= 0 else { throw Self.failure("read", path) }
        return bytes.isEmpty ? nil : bytes
    }

    func write(_ bytes: [UInt8]) throws(GzipError) {
        var offset = 0
        while offset < bytes.count {
            let code = bytes.withUnsafeBytes { buffer in
                systemWrite(descriptor, buffer.baseAddress.map { $0 + offset }, buffer.count - offset)
            }
            guard code >= 0 || errno == EINTR else { throw Self.failure("write", path) }
            offset += max(code, 0)
        }
    }

    /// Closes the file; throws if the system could not store all written bytes.
    func close() throws(GzipError) {
        let code = systemClose(descriptor)
        descriptor = -1
        guard code == 0 else { throw Self.failure("write", path) }
    }

    /// Removes the file from its directory; ignores a refusal of the system.
    func remove() { unlink(path) }

    private static func failure(_ operation: String, _ path: String) -> GzipError {
        .fileFailed(operation: operation, path: path, reason: String(cString: strerror(errno)))
    }
}

// Other names for the system's functions, because methods of the same name hide them.
private let systemRead = read
private let systemWrite = write
private let systemClose = close
