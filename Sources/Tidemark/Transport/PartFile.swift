internal import Foundation
internal import TidemarkCore
internal import TidemarkSQL

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
            // A process that was thought dead may still write its own file of this name.
            unlink(part)
            return try Self.open(part, O_WRONLY | O_CREAT | O_EXCL)
        }
    }

    /// The free bytes of the file's disk; nil if the system does not say.
    var freeBytes: Int64? {
        var disk = statvfs()
        guard statvfs(part, &disk) == 0 else { return nil }
        return Int64(clamping: UInt64(disk.f_bavail)).multipliedReportingOverflow(by: Int64(disk.f_frsize)).partialValue
    }

    func write(_ bytes: [UInt8]) async throws {
        try await blocking { [handle, part] in try Self.naming(part) { try handle.write(contentsOf: Data(bytes)) } }
    }

    func empty() async throws {
        try await blocking { [handle, part] in
            try Self.naming(part) {
                try handle.truncate(atOffset: 0)
                try handle.seek(toOffset: 0)
            }
        }
    }

    /// Makes the file durable and renames it, replacing any existing file.
    func commit() async throws {
        try await blocking { [handle, part, path] in
            try Self.naming(part) {
                try handle.synchronize()
                try handle.close()
            }
            guard rename(part, path) == 0 else { throw TidemarkError.unwritable(path) }
        }
    }

    func discard() async { await blocking { [part] in _ = unlink(part) } }

    /// Names the file in an error of `body`.
    static func naming<Value>(_ path: String, _ body: () throws -> Value) throws(TidemarkError) -> Value {
        do { return try body() } catch { throw TidemarkError.unwritable(path, error.localizedDescription) }
    }

    static func open(_ path: String, _ flags: Int32) throws(TidemarkError) -> FileHandle {
        // Other users must not read the rows, even in a folder like /tmp.
        let descriptor = Foundation.open(path, flags | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw TidemarkError.unwritable(path) }
        return FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
    }
}

/// The compressed bytes of a download so far, so that the next process resumes it.
///
/// The file begins with two lines: the URL and the entity tag of the file that the bytes are the beginning of. After a
/// power loss the bytes may be damaged, which the checksum of gzip tells. Every function works on a thread that may
/// block.
struct ReceivedFile: Sendable {
    private static let headBytesMax = 16 << 10
    private static let pieceBytes = 256 << 10
    private let path: String
    private let url: String
    private let handle: FileHandle
    /// The entity tag of the stored bytes; nil without any.
    let tag: String?

    /// Opens the bytes received from a URL; those from another one are none.
    init(path: String, url: String) async throws {
        self.path = path
        self.url = url
        (handle, tag) = try await blocking {
            let handle = try PartFile.open(path, O_RDWR | O_CREAT)
            let head = try PartFile.naming(path) { try handle.read(upToCount: Self.headBytesMax) ?? Data() }
            let lines = head.split(separator: UInt8(ascii: "\n"), maxSplits: 2, omittingEmptySubsequences: false)
            guard lines.count == 3, lines[0].elementsEqual(url.utf8) else { return (handle, nil) }
            return (handle, String(decoding: lines[1], as: UTF8.self))
        }
    }

    /// Calls `take` with the stored bytes but the last one, which it removes.
    ///
    /// The server confirms that it still has the file by sending the last byte again.
    func read(_ take: ([UInt8]) async throws -> Void) async throws {
        guard let tag else { return }
        let start = UInt64(head(tag).count)
        try await blocking { [handle, path] in
            try PartFile.naming(path) {
                try handle.truncate(atOffset: max(start, try handle.seekToEnd() - 1))
                try handle.seek(toOffset: start)
            }
        }
        while true {
            let piece = try await blocking { [handle, path] in
                try PartFile.naming(path) { try handle.read(upToCount: Self.pieceBytes) ?? Data() }
            }
            guard !piece.isEmpty else { return }
            try await take(Array(piece))
        }
    }

    /// Forgets the stored bytes, and begins to store others; without a tag, none.
    func begin(tag: String?) async throws {
        let head = tag.map(head) ?? Data()
        try await blocking { [handle, path] in
            try PartFile.naming(path) {
                try handle.truncate(atOffset: 0)
                try handle.seek(toOffset: 0)
                try handle.write(contentsOf: head)
            }
        }
    }

    func append(_ bytes: [UInt8]) async throws {
        try await blocking { [handle, path] in try PartFile.naming(path) { try handle.write(contentsOf: Data(bytes)) } }
    }

    func discard() async { await blocking { [path] in _ = unlink(path) } }

    private func head(_ tag: String) -> Data { Data("\(url)\n\(tag)\n".utf8) }
}
