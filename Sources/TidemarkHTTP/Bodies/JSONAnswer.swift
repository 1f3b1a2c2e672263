internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import NIOPosix
internal import TidemarkGzip

/// An answer in JSON: compressed when the client takes gzip and it saves something.
enum JSONAnswer {
    /// Smaller answers travel as they are.
    static let compressedBytesMin = 1 << 10
    /// Under load the time counts for more than the last few percent of the size.
    private static let compressionLevel = 4
    /// Larger answers are written in pieces of this size, so that a client's progress can be seen.
    static let pieceBytesMax = 64 << 10

    /// Makes an answer for a request with these headers; with `shared`, one that others may get as
    /// well and that need not be compressed for each of them.
    ///
    /// The answer's memory is counted by `share` until its last piece is written. Without a share
    /// it is not counted: it is short.
    ///
    /// A client that does not take gzip is a person at a terminal, or close to one: the body ends
    /// with a newline then.
    static func response(
        _ json: [UInt8],
        status: HTTPResponse.Status = .ok,
        to requestHeaders: HTTPFields,
        share: MemoryShare? = nil,
        shared: CompressedAnswers? = nil
    ) async throws -> Response {
        // The JSON, and beside it what is sent.
        try share?.answer(bytes: 2 * json.count)
        var headers: HTTPFields = [
            .contentType: "application/json", .cacheControl: "no-store", .vary: "Accept-Encoding",
        ]
        let body: ByteBuffer
        switch ContentCoding(acceptEncoding: requestHeaders[.acceptEncoding]) {
        case .gzip where json.count > compressedBytesMin:
            headers[.contentEncoding] = "gzip"
            body = try await compressed(json, by: shared)
        case .gzip: body = ByteBuffer(bytes: json)
        case .identity:
            var text = ByteBuffer(bytes: json)
            if json.last != newline { text.writeInteger(newline) }
            body = text
        }
        try share?.answer(bytes: body.readableBytes)
        return Response(status: status, headers: headers, body: responseBody(body, share))
    }

    /// A body as gzip.
    static func compress(_ json: [UInt8]) -> ByteBuffer {
        let stream = Gzip(level: compressionLevel)
        stream.feed(json)
        stream.finish()
        var body = ByteBuffer()
        while let block = stream.next() { body.writeBytes(block) }
        return body
    }

    private static func compressed(_ json: [UInt8], by shared: CompressedAnswers?) async throws -> ByteBuffer {
        if let shared { return try await shared.compressed(json) }
        // Compressing megabytes takes a while, and the tasks' own threads are few.
        return try await NIOThreadPool.singleton.runIfActive { compress(json) }
    }

    private static let newline = UInt8(ascii: "\n")

    private static func responseBody(_ buffer: ByteBuffer, _ share: MemoryShare?) -> ResponseBody {
        guard buffer.readableBytes > pieceBytesMax else { return ResponseBody(byteBuffer: buffer) }
        return ResponseBody(contentLength: buffer.readableBytes) { writer in
            var rest = buffer
            while let piece = rest.readBytes(length: min(rest.readableBytes, pieceBytesMax)), !piece.isEmpty {
                // A copy: a slice that waits on the connection would keep the whole answer alive.
                try await writer.write(ByteBuffer(bytes: piece))
            }
            try await writer.finish(nil)
            withExtendedLifetime(share) {}
        }
    }
}
