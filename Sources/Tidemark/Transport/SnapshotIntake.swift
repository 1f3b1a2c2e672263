internal import AsyncHTTPClient
internal import NIOCore
internal import NIOHTTP1
internal import TidemarkCore
internal import TidemarkGzip

/// The state of a snapshot download, kept across connections.
///
/// The decompressor continues with the next byte of any connection. So the device stores no compressed
/// bytes, and one bound on the decompressed size covers all connections.
final class SnapshotIntake {
    /// The longest entity tag that the device sends back, in bytes.
    private static let tagBytesMax = 1 << 10
    /// The compressed bytes of the file so far.
    private(set) var received: Int64 = 0
    /// The compressed bytes of the whole file, if known.
    private(set) var total: Int64?
    /// The file's strong entity tag with quotes; nil if the download cannot be resumed.
    private(set) var tag: String?

    private let address: ServerAddress
    private let file: PartFile
    private let bytesMax: Int
    private var gunzip: Gunzip
    private var size: SnapshotSize

    init(address: ServerAddress, file: PartFile, bytesMax: Int) {
        self.address = address
        self.file = file
        self.bytesMax = bytesMax
        gunzip = Gunzip(bytesMax: bytesMax)
        size = SnapshotSize(freeBytes: file.freeBytes)
    }

    /// Begins with an answer's head: a whole file, or the rest of the current one.
    func begin(_ head: HTTPClientResponse) async throws {
        let type = head.headers.first(name: "Content-Type") ?? "no content type"
        guard type.lowercased().hasPrefix("application/gzip") else { throw address.foreign("a page of \(type)") }
        if head.status == .partialContent { try resume(head) } else { try await restart(head) }
    }

    func write(_ piece: ByteBuffer) async throws {
        received += Int64(piece.readableBytes)
        guard received <= total ?? .max else { throw address.foreign("more than it announced") }
        gunzip.feed(Array(piece.readableBytesView))
        while let block = try gunzip.next() {
            if let fault = size.take(block, received: received) { throw refusal(fault) }
            try await file.write(block)
        }
    }

    private func refusal(_ fault: SnapshotSize.Fault) -> TidemarkError {
        switch fault {
        case .longerThanItsHeader: address.foreign("a snapshot that is longer than it says")
        case .noDatabase: address.foreign("a large file that is no snapshot")
        case .inflated: address.foreign("a snapshot that expands too many times")
        case .tooLargeForDisk(let bytes, let free):
            TidemarkError(
                .storageFailed,
                "The snapshot has \(bytes >> 20) MiB, and the disk has \(free >> 20) MiB of free space.",
                fix: "Free twice as much as the snapshot has, and try again.")
        }
    }

    /// Checks at the end of the answer that the file is complete.
    func finish() throws {
        try gunzip.finish()
        guard received == total ?? received else { throw address.foreign("less than it announced") }
    }

    private func restart(_ head: HTTPClientResponse) async throws {
        if received > 0 {
            try await file.empty()
            gunzip = Gunzip(bytesMax: bytesMax)
            size = SnapshotSize(freeBytes: file.freeBytes)
            received = 0
        }
        total = head.headers.first(name: "Content-Length").flatMap { Int64($0) }
        tag = head.headers.first(name: "ETag").flatMap {
            $0.hasPrefix("\"") && $0.utf8.count <= Self.tagBytesMax ? $0 : nil
        }
    }

    /// Resumes the current file if the answer holds exactly the missing bytes.
    private func resume(_ head: HTTPClientResponse) throws {
        guard head.headers.first(name: "ETag") == tag else { throw address.foreign("a part of another file") }
        guard let range = head.headers.first(name: "Content-Range").flatMap(ContentRange.init),
            range == ContentRange(from: received, of: total ?? range.total),
            Int64(head.headers.first(name: "Content-Length") ?? "\(range.total - received)") == range.total - received
        else { throw address.foreign("another part than was asked for") }
        total = range.total
    }
}
