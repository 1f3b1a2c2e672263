import NIOCore
import NIOPosix

/// A program other than Tidemark: it answers every request with the same bytes.
struct CannedServer {
    private let listener: any Channel

    var port: Int { listener.localAddress?.port ?? 0 }
    var url: String { "http://127.0.0.1:\(port)" }

    /// Runs `body` against such a server, which then closes the connection or stays silent.
    ///
    /// It waits for the head of a request, or, without `afterHead`, for any bytes.
    static func run(
        _ bytes: [UInt8], hangsUp: Bool = true, afterHead: Bool = true, body: (CannedServer) async throws -> Void
    ) async throws {
        try await run(inPiecesOf: .max, hangsUp: hangsUp, afterHead: afterHead, answer: { _ in bytes }, body: body)
    }

    /// Runs `body` against a server that sends its answers in pieces of this many bytes, each after
    /// the one before was sent.
    static func run(
        inPiecesOf pieceBytes: Int, hangsUp: Bool = true, afterHead: Bool = true,
        answer: @escaping @Sendable (_ head: String) -> [UInt8], body: (CannedServer) async throws -> Void
    ) async throws {
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton).childChannelInitializer {
            channel in
            channel.eventLoop.makeCompletedFuture {
                try channel.pipeline.syncOperations.addHandler(
                    Handler(answer, pieceBytes: pieceBytes, hangsUp: hangsUp, afterHead: afterHead))
            }
        }.bind(host: "127.0.0.1", port: 0).get()
        let server = CannedServer(listener: listener)
        let result: Result<Void, any Error>
        do { result = .success(try await body(server)) } catch { result = .failure(error) }
        try await listener.close()
        try result.get()
    }

    /// Runs `body` against a server that answers with this status, these headers and this body.
    static func run(status: String, headers: [String], content: String, body: (CannedServer) async throws -> Void)
        async throws
    {
        let head = ["HTTP/1.1 \(status)"] + headers + ["Content-Length: \(content.utf8.count)"]
        let text = head.joined(separator: "\r\n") + "\r\n\r\n" + content
        try await run(Array(text.utf8), body: body)
    }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer
        private let answer: @Sendable (String) -> [UInt8]
        private let pieceBytes: Int
        private let hangsUp: Bool
        private let afterHead: Bool
        private var request = ""

        init(_ answer: @escaping @Sendable (String) -> [UInt8], pieceBytes: Int, hangsUp: Bool, afterHead: Bool) {
            self.answer = answer
            self.pieceBytes = pieceBytes
            self.hangsUp = hangsUp
            self.afterHead = afterHead
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            request += String(buffer: unwrapInboundIn(data))
            guard !afterHead || request.contains("\r\n\r\n") else { return }
            Self.write(
                ByteBuffer(bytes: answer(request)), inPiecesOf: pieceBytes, to: context.channel, hangsUp: hangsUp)
        }

        private static func write(
            _ bytes: ByteBuffer, inPiecesOf pieceBytes: Int, to channel: any Channel, hangsUp: Bool
        ) {
            var rest = bytes
            guard let piece = rest.readSlice(length: min(pieceBytes, rest.readableBytes)), piece.readableBytes > 0
            else {
                if hangsUp { channel.close(mode: .output, promise: nil) }
                return
            }
            let next = rest
            channel.writeAndFlush(piece).whenSuccess {
                write(next, inPiecesOf: pieceBytes, to: channel, hangsUp: hangsUp)
            }
        }
    }
}
