internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import NIOHTTP1
internal import TidemarkCore
internal import TidemarkGzip

/// Reads and decompresses a request's body, and refuses it as soon as it exceeds a bound.
struct BodyReader {
    /// The largest body after decompression, in bytes.
    let bytesMax: Int
    /// The longest time for a body to arrive.
    let durationMax: Duration
    /// The remedy for a body that is too large.
    var tooLargeFix = Self.tooLargeFix

    /// Reads the whole body from a channel, and reserves its memory in advance.
    ///
    /// - Throws: ``Refusal`` for a body that is too large, too slow, or in another coding than gzip, and
    ///   if the server has no memory for it; ``ClientGone`` if the body ends early.
    func read(_ request: Request, on channel: any Channel, share: MemoryShare) async throws -> [UInt8] {
        let contentLength = request.announcedLength
        guard let coding = ContentCoding(contentEncoding: request.headers[.contentEncoding]) else {
            throw try await refusal(of: request, unsupported(request.headers[.contentEncoding] ?? ""))
        }
        guard contentLength ?? 0 <= bytesMax else { throw try await refusal(of: request, tooLarge) }
        var intake = Intake(reader: self, coding: coding, contentLength: contentLength, share: share)
        do {
            try await UploadPermission.grant(request, on: channel)
            for try await piece in request.body { guard await intake.take(piece) else { break } }
        } catch let error as TidemarkError { throw Refusal.ofRest(error) } catch { throw ClientGone(cause: error) }
        if let refusal = intake.refusal { throw refusal }
        guard intake.receivedBytes == contentLength ?? intake.receivedBytes else {
            throw ClientGone(cause: ChannelError.eof)
        }
        return try intake.finish()
    }

    /// Completes the refusal of a request whose body the server has not begun to read.
    private func refusal(of request: Request, _ refusal: Refusal) async throws -> Refusal {
        var refusal = refusal
        refusal.leavesBodyUnread = try await !UploadDrain.dropBody(of: request)
        return refusal
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

    private var tooLarge: Refusal { Self.tooLarge(bytesMax, fix: tooLargeFix) }

    /// The refusal of a body of more bytes.
    static func tooLarge(_ bytesMax: Int, fix: String = Self.tooLargeFix) -> Refusal {
        Refusal(
            .tooLarge,
            "The body holds more than \(bytesMax) bytes, counted after decompression.",
            fix: fix
        )
    }

    private static let tooLargeFix = "Send fewer change sets at a time, or have the server's limit raised."

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
    /// Collects the pieces of a body, through the decompressor if needed; drops them after a refusal.
    private struct Intake {
        private(set) var receivedBytes = 0
        private(set) var refusal: Refusal?
        private let reader: BodyReader
        private let deadline: ContinuousClock.Instant
        private let gunzip: Gunzip?
        private let share: MemoryShare
        private var body: [UInt8] = []
        private var drain: UploadDrain?

        init(reader: BodyReader, coding: ContentCoding, contentLength: Int?, share: MemoryShare) {
            self.reader = reader
            self.share = share
            deadline = ContinuousClock.now + reader.durationMax
            gunzip = coding == .gzip ? Gunzip(bytesMax: reader.bytesMax) : nil
            // A growing array is copied, which takes its memory twice.
            if coding == .identity, let contentLength { body.reserveCapacity(contentLength) }
        }

        /// Takes the next piece, and returns whether to continue.
        mutating func take(_ piece: ByteBuffer) async -> Bool {
            guard refusal == nil else {
                let continues = drain?.drop(piece) ?? false
                refusal?.leavesBodyUnread = !continues
                return continues
            }
            receivedBytes += piece.readableBytes
            if ContinuousClock.now >= deadline {
                refuse(reader.tooSlow)
                return true
            }
            do throws(Refusal) { try await append(Array(piece.readableBytesView)) } catch { refuse(error) }
            return true
        }

        /// Returns the body after the last piece.
        func finish() throws -> [UInt8] {
            do throws(GzipError) { try gunzip?.finish() } catch { throw reader.refusal(error) }
            share.finishReading()
            return body
        }

        private mutating func append(_ bytes: [UInt8]) async throws(Refusal) {
            guard let gunzip else { return try await hold(bytes) }
            gunzip.feed(bytes)
            while let block = try next(of: gunzip) { try await hold(block) }
        }

        private func next(of gunzip: Gunzip) throws(Refusal) -> [UInt8]? {
            do throws(GzipError) { return try gunzip.next() } catch { throw reader.refusal(error) }
        }

        private mutating func hold(_ bytes: [UInt8]) async throws(Refusal) {
            guard body.count + bytes.count <= reader.bytesMax else { throw reader.tooLarge }
            try await share.grow(toBody: body.count + bytes.count)
            body += bytes
        }

        private mutating func refuse(_ refusal: Refusal) {
            self.refusal = refusal
            body = []
            drain = UploadDrain()
            share.giveBack()
        }
    }
}

/// Reads the rest of a refused upload, so that the client can read the refusal.
///
/// Most clients read the answer only after they sent everything, and closing a connection with unread
/// bytes discards the answer. So the server reads and drops the rest, within bounds.
struct UploadDrain {
    private static let bytesMax = 64 << 20
    private static let durationMax = Duration.seconds(20)

    private var bytes = 0
    private let deadline = ContinuousClock.now + durationMax

    /// Drops a piece, and returns whether to wait for the next.
    mutating func drop(_ piece: ByteBuffer) -> Bool {
        bytes += piece.readableBytes
        return bytes <= Self.bytesMax && ContinuousClock.now < deadline
    }

    /// Drops a body that the server has not begun to read, unless the request announces one beyond the bounds.
    ///
    /// - Returns: Whether the body ended within the bounds.
    static func dropBody(of request: Request) async throws -> Bool {
        guard !request.waitsForPermission, request.announcedLength ?? 0 <= bytesMax else { return false }
        var drain = UploadDrain()
        do {
            for try await piece in request.body where !drain.drop(piece) { return false }
            return true
        } catch is TidemarkError { return false } catch { throw ClientGone(cause: error) }
    }
}

extension Request {
    /// The length of the body that the request announces, in bytes; the greatest integer for one that is greater.
    var announcedLength: Int? { headers[.contentLength].map { Int($0) ?? .max } }

    /// Whether the client waits for `100 Continue` before it sends its body.
    var waitsForPermission: Bool { headers[.expect] != nil }
}

/// Sends `100 Continue` to a client that sent `Expect: 100-continue`.
enum UploadPermission {
    private static let head = ByteBuffer(string: "HTTP/1.1 100 Continue\r\n\r\n")

    /// Sends the permission if the client waits for it.
    static func grant(_ request: Request, on channel: any Channel) async throws {
        guard request.waitsForPermission else { return }
        try await channel.eventLoop.submit {
            // Write from the encoder towards the network: other handlers expect one head per request.
            let encoder = try channel.pipeline.syncOperations.context(handlerType: HTTPResponseEncoder.self)
            encoder.writeAndFlush(NIOAny(head), promise: nil)
        }.get()
    }
}
