internal import AsyncHTTPClient
internal import NIOCore
internal import NIOHTTP1
internal import TidemarkCore

/// Downloads a snapshot, decompresses it and writes it to a file, in constant memory.
///
/// After a broken connection, and in the next process, it requests the rest of the same file. If the server has another
/// file by then, it sends that one completely.
struct SnapshotDownload {
    /// The bytes between two reports of progress.
    private static let progressBytes: Int64 = 100_000
    /// How often the device comes back while the server writes the file: some hours.
    private static let returnsMax = 1_000
    let exchange: HTTPExchange
    let url: String
    let path: String
    /// The largest file, decompressed, in bytes.
    let bytesMax: Int

    typealias Progress = @Sendable (_ received: Int64, _ total: Int64?) -> Void
    static let receivedSuffix = ".received"

    func run(progress: Progress) async throws {
        let file = try await PartFile(path: path)
        do {
            let stored = try await ReceivedFile(path: path + Self.receivedSuffix, url: url)
            let intake = SnapshotIntake(address: exchange.address, file: file, stored: stored, bytesMax: bytesMax)
            do {
                try await fetch(intake, progress: progress)
                try await file.commit()
            } catch {
                if intake.isFaulty || intake.tag == nil { await stored.discard() }
                throw error
            }
        } catch {
            await file.discard()
            throw error
        }
    }

    private func fetch(_ intake: SnapshotIntake, progress: Progress) async throws {
        try await intake.takeStored(progress: progress)
        do { try await fetchRest(intake, progress: progress) } catch {
            // The bytes of an earlier process may be at fault, or the question for the rest of them.
            let isAnswered = (error as? TidemarkError)?.code == .invalidResponse
            guard intake.hasStoredBytes, intake.isFaulty || isAnswered else { throw error }
            try await intake.startOver()
            try await fetchRest(intake, progress: progress)
        }
    }

    private enum Ending {
        case whole
        case cut(any Error, bytes: Int64)
    }

    private func fetchRest(_ intake: SnapshotIntake, progress: Progress) async throws {
        var connections: Int64 = 0
        while case .cut(let error, let bytes) = try await attemptOnceWritten(intake, progress: progress) {
            connections += 1
            guard intake.tag != nil, Self.mayResume(after: connections, bytes: bytes, total: intake.received) else {
                throw exchange.connectionError(error)
            }
        }
    }

    /// Whether to connect again after so many broken connections, if the last one brought `bytes` of the `total`.
    ///
    /// A download may use five connections, and one more for each received MiB. So it continues while it makes
    /// progress, but stops soon if the server sends little at a time or another file each time. After a connection
    /// without any data it stops, because the network is gone; the session decides when to retry.
    static func mayResume(after connections: Int64, bytes: Int64, total: Int64) -> Bool {
        bytes > 0 && connections < 5 + total >> 20
    }

    /// Requests the missing bytes, and comes back as long as the server is still writing the file.
    private func attemptOnceWritten(_ intake: SnapshotIntake, progress: Progress) async throws -> Ending {
        for _ in 0..<Self.returnsMax {
            do { return try await attempt(intake, progress: progress) } catch let error as TidemarkError
                where error.code == .snapshotPending
            {
                progress(0, nil)
                try await Task.sleep(for: .seconds(min(max(error.retryAfterSeconds ?? 1, 1), 60)))
            }
        }
        return try await attempt(intake, progress: progress)
    }

    private func attempt(_ intake: SnapshotIntake, progress: Progress) async throws -> Ending {
        var request = HTTPClientRequest(url: url)
        // The file is compressed already.
        request.headers.add(name: "Accept-Encoding", value: "identity")
        let isRest = intake.received > 0
        if let tag = intake.tag, isRest {
            request.headers.add(name: "Range", value: "bytes=\(intake.received)-")
            request.headers.add(name: "If-Range", value: tag)
        }
        return try await exchange.answer(to: request, orStatus: isRest ? .partialContent : .ok) { response in
            try await intake.begin(response)
            return try await copy(response, to: intake, progress: progress)
        }
    }

    private func copy(_ response: HTTPClientResponse, to intake: SnapshotIntake, progress: Progress) async throws
        -> Ending
    {
        let start = intake.received
        var lastReport = start
        if start == 0 { progress(0, intake.total) }
        var pieces = response.body.makeAsyncIterator()
        while true {
            let piece: ByteBuffer?
            do { piece = try await pieces.next() } catch {
                guard isCut(error) else { throw error }
                return .cut(error, bytes: intake.received - start)
            }
            guard let piece else { break }
            try await intake.write(piece)
            if intake.received - lastReport >= Self.progressBytes {
                progress(intake.received, intake.total)
                lastReport = intake.received
            }
        }
        try await intake.finish()
        if intake.received > lastReport { progress(intake.received, intake.total) }
        return .whole
    }

    /// Returns whether an answer's body ended because the connection broke.
    private func isCut(_ error: any Error) -> Bool {
        !(error is CancellationError) && !Task.isCancelled && exchange.connectionError(error).code == .unreachable
    }
}
