import NIOCore
import NIOPosix

/// Something that is not Tidemark: whatever it is asked, it sends the same bytes.
struct CannedServer {
    private let listener: any Channel

    var url: String { "http://127.0.0.1:\(listener.localAddress?.port ?? 0)" }

    /// Runs `body` against such a server, which hangs up after its bytes or falls silent.
    static func run(
        _ bytes: [UInt8],
        hangsUp: Bool = true,
        body: (CannedServer) async throws -> Void
    ) async throws {
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(
                        Handler(bytes: bytes, hangsUp: hangsUp)
                    )
                }
            }
            .bind(host: "127.0.0.1", port: 0)
            .get()
        let server = CannedServer(listener: listener)
        let result: Result<Void, any Error>
        do {
            result = .success(try await body(server))
        } catch {
            result = .failure(error)
        }
        try await listener.close()
        try result.get()
    }

    /// Runs `body` against a server that answers with this status, these headers and this body.
    static func run(
        status: String,
        headers: [String],
        content: String,
        body: (CannedServer) async throws -> Void
    ) async throws {
        let head = ["HTTP/1.1 \(status)"] + headers + ["Content-Length: \(content.utf8.count)"]
        let text = head.joined(separator: "\r\n") + "\r\n\r\n" + content
        try await run(Array(text.utf8), body: body)
    }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer
        private let bytes: [UInt8]
        private let hangsUp: Bool
        private var request = ""

        init(bytes: [UInt8], hangsUp: Bool) { (self.bytes, self.hangsUp) = (bytes, hangsUp) }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            request += String(buffer: unwrapInboundIn(data))
            guard request.contains("\r\n\r\n") else { return }
            let channel = context.channel
            let written = channel.writeAndFlush(ByteBuffer(bytes: bytes))
            guard hangsUp else { return }
            written.whenComplete { _ in channel.close(mode: .output, promise: nil) }
        }
    }
}
