internal import AsyncHTTPClient
internal import NIOCore
internal import NIOHTTP1
internal import TidemarkCore

/// A snapshot on its way from the network through the decompressor to a file, in flat memory.
///
/// When the connection breaks it is made again, and asked for the rest of the same file: nothing
/// that was taken in travels twice. A server that has another file by then sends that one whole.
struct SnapshotDownload {
    /// The bytes between two reports of progress.
    private static let progressBytes: Int64 = 100_000

    let exchange: HTTPExchange
    let url: String
    /// Where the file goes.
    let path: String
    /// The largest file, decompressed, in bytes.
    let bytesMax: Int

    /// Downloads the file.
    func run(progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void) async throws {
        let file = try await PartFile(path: path)
        do {
            let intake = SnapshotIntake(address: exchange.address, file: file, bytesMax: bytesMax)
            try await fetch(intake, progress: progress)
            try await file.commit()
        } catch {
            await file.discard()
            throw error
        }
    }

    /// What became of one connection.
    private enum Ending {
        case whole
        case cut(any Error, bytes: Int64)
    }

    private func fetch(_ intake: SnapshotIntake, progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void)
        async throws
    {
        var budget = ResumeBudget()
        while case .cut(let error, let bytes) = try await attempt(intake, progress: progress) {
            guard intake.tag != nil, budget.allowsAnother(afterBringing: bytes, received: intake.received) else {
                throw exchange.failure(error)
            }
        }
    }

    /// Asks for what is missing, once.
    private func attempt(_ intake: SnapshotIntake, progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void)
        async throws -> Ending
    {
        var request = HTTPClientRequest(url: url)
        // The file is compressed already.
        request.headers.add(name: "Accept-Encoding", value: "identity")
        let isRest = intake.received > 0
        if let tag = intake.tag, isRest {
            request.headers.add(name: "Range", value: "bytes=\(intake.received)-")
            request.headers.add(name: "If-Range", value: tag)
        }
        return try await exchange.answer(to: request, besides: isRest ? .partialContent : .ok) { response in
            try await intake.begin(response)
            return try await copy(response, to: intake, progress: progress)
        }
    }

    /// Takes an answer's body.
    private func copy(
        _ response: HTTPClientResponse,
        to intake: SnapshotIntake,
        progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void
    ) async throws -> Ending {
        let begun = intake.received
        var reported = begun
        if begun == 0 { progress(0, intake.total) }
        var pieces = response.body.makeAsyncIterator()
        while true {
            let piece: ByteBuffer?
            do { piece = try await pieces.next() } catch {
                guard isCut(error) else { throw error }
                return .cut(error, bytes: intake.received - begun)
            }
            guard let piece else { break }
            try await intake.take(piece)
            if intake.received - reported >= Self.progressBytes {
                progress(intake.received, intake.total)
                reported = intake.received
            }
        }
        try intake.finish()
        if intake.received > reported { progress(intake.received, intake.total) }
        return .whole
    }

    /// Whether an answer's body ended because the connection broke.
    private func isCut(_ error: any Error) -> Bool {
        !(error is CancellationError) && !Task.isCancelled && exchange.failure(error).code == .unreachable
    }
}
