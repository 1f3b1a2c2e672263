internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import TidemarkCore
internal import TidemarkGzip

/// Reads a request's body, decompressed, and refuses it as soon as it passes a bound.
struct BodyReader {
    /// The largest body after decompression, in bytes.
    let bytesMax: Int
    /// The longest time that a body may take to arrive.
    let durationMax: Duration

    /// The whole body.
    ///
    /// - Throws: ``Refusal`` for a body that is too large, too slow, or in another coding than gzip;
    ///   ``ClientGone`` when the rest of it never came.
    func read(_ request: Request) async throws -> [UInt8] {
        guard let coding = ContentCoding(contentEncoding: request.headers[.contentEncoding]) else {
            throw unsupported(request.headers[.contentEncoding] ?? "")
        }
        let announced = request.headers[.contentLength].flatMap { Int($0) }
        guard announced ?? 0 <= bytesMax else { throw tooLarge }
        let deadline = ContinuousClock.now + durationMax
        var sink = Sink(coding: coding, bytesMax: bytesMax)
        var received = 0
        do {
            for try await piece in request.body {
                received += piece.readableBytes
                guard ContinuousClock.now < deadline else { throw tooSlow }
                try sink.take(Array(piece.readableBytesView))
            }
        } catch let error as GzipError {
            throw refusal(error)
        } catch let refusal as Refusal {
            throw refusal
        } catch {
            throw ClientGone(cause: error)
        }
        guard received == announced ?? received else { throw ClientGone(cause: ChannelError.eof) }
        do throws(GzipError) {
            return try sink.finish()
        } catch {
            throw refusal(error)
        }
    }

    private func refusal(_ error: GzipError) -> Refusal {
        guard case .tooLarge = error else {
            return Refusal(
                .malformedRequest,
                "The body cannot be decompressed: \(error).",
                fix: "Send one whole gzip stream, or leave out Content-Encoding."
            )
        }
        return tooLarge
    }

    private var tooLarge: Refusal {
        Refusal(
            .tooLarge,
            "The body holds more than \(bytesMax) bytes, counted after decompression.",
            fix: "Send fewer change sets at a time, or have the server's limit raised."
        )
    }

    private var tooSlow: Refusal {
        Refusal(
            .unavailable,
            "The body took longer than \(durationMax) to arrive.",
            fix: "Send fewer change sets at a time, or try again over a faster network."
        )
    }

    private func unsupported(_ encoding: String) -> Refusal {
        Refusal(
            .unsupportedEncoding,
            "The body's Content-Encoding \"\(encoding)\" is not one that this server decodes.",
            fix: "Compress the body with gzip, or leave out Content-Encoding.",
            headers: [.acceptEncoding: "gzip"]
        )
    }
}

extension BodyReader {
    /// Where the pieces of a body go: straight into the result, or through the decompressor.
    private struct Sink {
        private let bytesMax: Int
        private let gunzip: Gunzip?
        private var body: [UInt8] = []

        init(coding: ContentCoding, bytesMax: Int) {
            self.bytesMax = bytesMax
            gunzip = coding == .gzip ? Gunzip(bytesMax: bytesMax) : nil
        }

        mutating func take(_ piece: [UInt8]) throws(GzipError) {
            guard let gunzip else {
                guard body.count + piece.count <= bytesMax else {
                    throw .tooLarge(bytesMax: bytesMax)
                }
                body += piece
                return
            }
            gunzip.feed(piece)
            while let block = try gunzip.next() { body += block }
        }

        func finish() throws(GzipError) -> [UInt8] {
            try gunzip?.finish()
            return body
        }
    }
}
