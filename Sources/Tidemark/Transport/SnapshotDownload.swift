internal import AsyncHTTPClient
internal import NIOCore
internal import NIOHTTP1
internal import TidemarkGzip

/// A snapshot on its way from the network through the decompressor to a file, in flat memory.
struct SnapshotDownload {
    /// The bytes between two reports of progress.
    private static let progressBytes: Int64 = 100_000

    let address: ServerAddress
    /// Where the file goes.
    let path: String
    /// The largest file, in bytes.
    let bytesMax: Int

    /// Reads an answer to its end.
    func run(
        _ response: HTTPClientResponse,
        progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void
    ) async throws {
        let type = response.headers.first(name: "Content-Type") ?? "no content type"
        guard type.lowercased().hasPrefix("application/gzip") else {
            throw address.foreign("a page of \(type)")
        }
        let file = try await PartFile(path: path)
        do {
            try await copy(response, to: file, progress: progress)
            try await file.commit()
        } catch {
            await file.discard()
            throw error
        }
    }

    private func copy(
        _ response: HTTPClientResponse,
        to file: PartFile,
        progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void
    ) async throws {
        let total = response.headers.first(name: "Content-Length").flatMap { Int64($0) }
        let gunzip = Gunzip(bytesMax: bytesMax)
        var received: Int64 = 0
        var reported: Int64 = 0
        progress(received, total)
        for try await piece in response.body {
            gunzip.feed(Array(piece.readableBytesView))
            while let block = try gunzip.next() { try await file.write(block) }
            received += Int64(piece.readableBytes)
            if received - reported >= Self.progressBytes {
                progress(received, total)
                reported = received
            }
        }
        try gunzip.finish()
        if received > reported { progress(received, total) }
    }
}
