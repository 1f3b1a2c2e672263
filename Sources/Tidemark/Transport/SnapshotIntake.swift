internal import AsyncHTTPClient
internal import NIOCore
internal import NIOHTTP1
internal import TidemarkCore
internal import TidemarkGzip

/// The state of a snapshot download, kept across connections, and across processes.
///
/// The decompressor continues with the next byte of any connection, so one bound on the decompressed size covers all of
/// them. The compressed bytes are stored as they arrive. The next process decompresses them again, and continues.
final class SnapshotIntake {
    /// The longest entity tag that the device sends back, in bytes.
    private static let tagBytesMax = 1 << 10
    /// The compressed bytes of the file so far.
    private(set) var received: Int64 = 0
    /// The compressed bytes of the whole file, if known.
    private(set) var total: Int64?
    /// The file's strong entity tag with quotes; nil if the download cannot be resumed.
    private(set) var tag: String?

    /// Whether the bytes, or what the server says about them, are of no use.
    private(set) var isFaulty = false
    /// Whether an earlier process received some of the bytes.
    private(set) var hasStoredBytes = false

    private let address: ServerAddress
    private let file: PartFile
    private let stored: ReceivedFile
    private let bytesMax: Int
    private var gunzip: Gunzip
    private var size: SnapshotSize

    init(address: ServerAddress, file: PartFile, stored: ReceivedFile, bytesMax: Int) {
        self.address = address
        self.file = file
        self.stored = stored
        self.bytesMax = bytesMax
        gunzip = Gunzip(bytesMax: bytesMax)
        size = SnapshotSize(address: address, freeBytes: file.freeBytes)
    }

    /// Takes the bytes that an earlier process received.
    func takeStored(progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void) async throws {
        guard let storedTag = stored.tag else { return }
        do {
            try await stored.read { bytes in
                received += Int64(bytes.count)
                try await decompress(bytes)
                progress(received, nil)
            }
            hasStoredBytes = received > 0
            if hasStoredBytes { tag = storedTag }
        } catch is GzipError { try await startOver() } catch let error as TidemarkError
            where error.code == .invalidResponse
        { try await startOver() }
    }

    /// Forgets all bytes so far, so that the next request is for the whole file.
    func startOver() async throws {
        try await stored.begin(tag: nil)
        try await file.empty()
        gunzip = Gunzip(bytesMax: bytesMax)
        size = SnapshotSize(address: address, freeBytes: file.freeBytes)
        received = 0
        total = nil
        tag = nil
        isFaulty = false
        hasStoredBytes = false
    }

    /// Begins with an answer's head: a whole file, or the rest of the current one.
    func begin(_ head: HTTPClientResponse) async throws {
        try await noting {
            let type = head.headers.first(name: "Content-Type") ?? "no content type"
            guard type.lowercased().hasPrefix("application/gzip") else { throw address.foreign("a page of \(type)") }
            if head.status == .partialContent { try resume(head) } else { try await restart(head) }
        }
    }

    func write(_ piece: ByteBuffer) async throws {
        try await noting {
            received += Int64(piece.readableBytes)
            guard received <= total ?? .max else { throw address.foreign("more than it announced") }
            let bytes = Array(piece.readableBytesView)
            if tag != nil { try await stored.append(bytes) }
            try await decompress(bytes)
        }
    }

    private func decompress(_ bytes: [UInt8]) async throws {
        gunzip.feed(bytes)
        while let block = try gunzip.next() {
            try size.take(block, received: received)
            try await file.write(block)
        }
    }

    /// Checks at the end of the answer that the file is complete.
    func finish() async throws {
        try await noting {
            try gunzip.finish()
            guard received == total ?? received else { throw address.foreign("less than it announced") }
        }
    }

    private func noting(_ body: () async throws -> Void) async throws {
        do { try await body() } catch {
            isFaulty = true
            throw error
        }
    }

    private func restart(_ head: HTTPClientResponse) async throws {
        if received > 0 { try await startOver() }
        total = head.headers.first(name: "Content-Length").flatMap { Int64($0) }
        tag = head.headers.first(name: "ETag").flatMap {
            $0.hasPrefix("\"") && $0.utf8.count <= Self.tagBytesMax ? $0 : nil
        }
        try await stored.begin(tag: tag)
    }

    /// Resumes the current file if the answer holds exactly the missing bytes.
    private func resume(_ head: HTTPClientResponse) throws {
        guard head.headers.first(name: "ETag") == tag else { throw address.foreign("a part of another file") }
        let range = head.headers.first(name: "Content-Range")?.lowercased() ?? ""
        guard let all = total ?? range.split(separator: "/").last.flatMap({ Int64($0) }), all > received,
            range == "bytes \(received)-\(all - 1)/\(all)",
            Int64(head.headers.first(name: "Content-Length") ?? "\(all - received)") == all - received
        else { throw address.foreign("another part than was asked for") }
        total = all
    }
}
