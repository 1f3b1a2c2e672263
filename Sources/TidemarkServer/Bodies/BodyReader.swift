internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import TidemarkCore
internal import TidemarkGzip

/// Reads and decompresses a request's body, and refuses it as soon as it exceeds a bound.
struct BodyReader {
    /// The largest body after decompression, in bytes.
    let bytesMax: Int
    /// The longest time for a body to arrive.
    let durationMax: Duration
    var tooLargeFix = Self.tooLargeFix

    /// Reads the whole body, with memory reserved in advance; throws ``Refusal``, or ``ClientGone`` if it ends early.
    func read(_ request: Request, on channel: any Channel, share: MemoryShare) async throws -> [UInt8] {
        let contentLength = request.announcedLength
        guard let coding = ContentCoding(contentEncoding: request.headers[.contentEncoding]) else {
            throw try await unsupported(request.headers[.contentEncoding] ?? "").droppingBody(of: request)
        }
        guard contentLength ?? 0 <= bytesMax else { throw try await tooLarge.droppingBody(of: request) }
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

    private func refusal(_ error: GzipError) -> Refusal {
        guard case .tooLarge = error else {
            return Refusal(
                .malformedRequest, "The body cannot be decompressed: \(error).",
                fix: "Send one whole gzip stream, or leave out Content-Encoding.")
        }
        return tooLarge
    }

    private var tooLarge: Refusal { Self.tooLarge(bytesMax, fix: tooLargeFix) }

    static func tooLarge(_ bytesMax: Int, fix: String = Self.tooLargeFix) -> Refusal {
        Refusal(.tooLarge, "The body holds more than \(bytesMax) bytes, counted after decompression.", fix: fix)
    }

    private static let tooLargeFix = "Send fewer change sets at a time, or have the server's limit raised."

    private var tooSlow: Refusal {
        Refusal(
            .unavailable, "The body took longer than \(durationMax) to arrive.",
            fix: "Send fewer change sets at a time, or try again over a faster network.")
    }

    private func unsupported(_ encoding: String) -> Refusal {
        Refusal(
            .unsupportedEncoding, "The body's Content-Encoding \"\(encoding)\" is not one that this server decodes.",
            fix: "Compress the body with gzip, or leave out Content-Encoding.", headers: [.acceptEncoding: "gzip"])
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

/// Drops the rest of a refused upload, within bounds: most clients read the answer only after they sent everything, and
/// closing a connection with unread bytes discards the answer.
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

    /// Drops an unread body, unless it is announced beyond the bounds; returns whether it ended within them.
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

    static func grant(_ request: Request, on channel: any Channel) async throws {
        guard request.waitsForPermission else { return }
        try await channel.eventLoop.submit {
            // Write from the encoder towards the network: other handlers expect one head per request.
            let encoder = try channel.pipeline.syncOperations.context(handlerType: HTTPResponseEncoder.self)
            encoder.writeAndFlush(NIOAny(head), promise: nil)
        }.get()
    }
}

/// Builds JSON answers, compressed if the client accepts gzip and the answer is not small.
enum JSONAnswer {
    /// Answers of up to this size are not compressed.
    static let compressedBytesMin = 1 << 10
    /// A fast level, because under load time counts for more than a few percent of the size.
    private static let compressionLevel = 4
    /// The server writes larger answers in pieces of this size, to measure the client's progress.
    static let pieceBytesMax = 64 << 10

    /// Builds an answer to a request with these headers; `share` counts its memory until its last piece is written.
    ///
    /// With `shared`, the server compresses the answer once for all clients. For a client that does not accept gzip,
    /// probably a person at a terminal, the body ends with a newline.
    static func response(
        _ json: [UInt8], status: HTTPResponse.Status = .ok, type: String = "application/json",
        to requestHeaders: HTTPFields, share: MemoryShare? = nil, shared: CompressedAnswers? = nil
    ) async throws -> Response {
        // The JSON, and the bytes to send.
        try share?.answer(bytes: 2 * json.count)
        var headers: HTTPFields = [.contentType: type, .cacheControl: "no-store", .vary: "Accept-Encoding"]
        let body: ByteBuffer
        switch ContentCoding(acceptEncoding: requestHeaders[.acceptEncoding]) {
        case .gzip where json.count > compressedBytesMin:
            headers[.contentEncoding] = "gzip"
            body = try await compress(json, by: shared)
        case .gzip: body = ByteBuffer(bytes: json)
        case .identity:
            var text = ByteBuffer(bytes: json)
            if json.last != newline { text.writeInteger(newline) }
            body = text
        }
        try share?.answer(bytes: body.readableBytes)
        return Response(status: status, headers: headers, body: responseBody(body, share))
    }

    static func compress(_ json: [UInt8]) -> ByteBuffer {
        let stream = Gzip(level: compressionLevel)
        stream.feed(json)
        stream.finish()
        var body = ByteBuffer()
        while let block = stream.next() { body.writeBytes(block) }
        return body
    }

    private static func compress(_ json: [UInt8], by shared: CompressedAnswers?) async throws -> ByteBuffer {
        if let shared { return try await shared.compressedBody(for: json) }
        // Compressing megabytes would block one of the few threads of the cooperative pool.
        return try await NIOThreadPool.singleton.runIfActive { compress(json) }
    }

    private static let newline = UInt8(ascii: "\n")

    private static func responseBody(_ buffer: ByteBuffer, _ share: MemoryShare?) -> ResponseBody {
        guard buffer.readableBytes > pieceBytesMax else { return ResponseBody(byteBuffer: buffer) }
        return ResponseBody(contentLength: buffer.readableBytes) { writer in
            var rest = buffer
            while let piece = rest.readBytes(length: min(rest.readableBytes, pieceBytesMax)), !piece.isEmpty {
                // A copy, because a slice would keep the whole answer in memory until it is sent.
                try await writer.write(ByteBuffer(bytes: piece))
            }
            try await writer.finish(nil)
            withExtendedLifetime(share) {}
        }
    }
}

/// The content codings that this server supports: identity and gzip.
enum ContentCoding {
    case identity
    case gzip

    /// Reads a body's coding from `Content-Encoding`; nil if the server does not support it.
    init?(contentEncoding: String?) {
        switch contentEncoding?.trimmedLowercased ?? "" {
        case "", "identity": self = .identity
        case "gzip", "x-gzip": self = .gzip
        default: return nil
        }
    }

    /// Chooses an answer's coding from `Accept-Encoding`: gzip if its weight is above 0.
    init(acceptEncoding: String?) {
        var gzipWeight: Double?
        var otherWeight = 0.0
        for element in (acceptEncoding ?? "").split(separator: ",") {
            let parts = element.split(separator: ";").map(\.trimmedLowercased)
            let weight = Self.weight(parts.dropFirst())
            switch parts.first {
            case "gzip", "x-gzip": gzipWeight = weight
            case "*": otherWeight = weight
            default: break
            }
        }
        self = (gzipWeight ?? otherWeight) > 0 ? .gzip : .identity
    }

    /// Returns the `q` among an element's parameters; 1 without one.
    private static func weight(_ parameters: some Sequence<String>) -> Double {
        for parameter in parameters where parameter.hasPrefix("q=") { return Double(parameter.dropFirst(2)) ?? 0 }
        return 1
    }
}

extension StringProtocol {
    fileprivate var trimmedLowercased: String {
        let start = drop { $0 == " " || $0 == "\t" }
        return String(start.reversed().drop { $0 == " " || $0 == "\t" }.reversed()).lowercased()
    }
}
