internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import NIOPosix
internal import TidemarkGzip

/// Builds JSON answers, compressed if the client accepts gzip and the answer is not small.
enum JSONAnswer {
    /// Answers of up to this size are not compressed.
    static let compressedBytesMin = 1 << 10
    /// A fast level, because under load time counts for more than a few percent of the size.
    private static let compressionLevel = 4
    /// The server writes larger answers in pieces of this size, to measure the client's progress.
    static let pieceBytesMax = 64 << 10

    /// Builds an answer to a request with these headers.
    ///
    /// With `shared`, other clients may get the same answer, and the server compresses it once. `share`
    /// counts the answer's memory until its last piece is written; short answers need no share.
    ///
    /// The media type is `type`.
    ///
    /// For a client that does not accept gzip, probably a person at a terminal, the body ends with a
    /// newline.
    static func response(
        _ json: [UInt8],
        status: HTTPResponse.Status = .ok,
        type: String = "application/json",
        to requestHeaders: HTTPFields,
        share: MemoryShare? = nil,
        shared: CompressedAnswers? = nil
    ) async throws -> Response {
        // The JSON, and the bytes to send.
        try share?.answer(bytes: 2 * json.count)
        var headers: HTTPFields = [
            .contentType: type, .cacheControl: "no-store", .vary: "Accept-Encoding",
        ]
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

    /// Compresses a body with gzip.
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
