import NIOCore
import NIOPosix

/// Raw bytes on a socket, for clients that behave as no HTTP library does.
extension TestServer {
    /// Sends bytes and hangs up.
    func send(_ request: String) async throws {
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton).connect(
            host: "127.0.0.1", port: port
        ).get()
        try await channel.writeAndFlush(ByteBuffer(string: request))
        try await channel.close()
    }

    /// Sends bytes and returns the answer, up to and including `end`.
    func exchange(_ request: String, until end: String) async throws -> String {
        let answer = AsyncStream.makeStream(of: String.self)
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton).channelInitializer {
            channel in
            channel.eventLoop.makeCompletedFuture {
                try channel.pipeline.syncOperations.addHandler(Collector(pieces: answer.continuation))
            }
        }.connect(host: "127.0.0.1", port: port).get()
        try await channel.writeAndFlush(ByteBuffer(string: request))
        var text = ""
        for await piece in answer.stream {
            text += piece
            if text.hasSuffix(end) { break }
        }
        channel.close(promise: nil)
        return text
    }

    /// Sends bytes, and never reads the answer.
    func connectWithoutReading(sending request: String) async throws -> any Channel {
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton).channelOption(
            .autoRead, value: false
        ).channelOption(.socketOption(.so_rcvbuf), value: 16 << 10).connect(host: "127.0.0.1", port: port).get()
        try await channel.writeAndFlush(ByteBuffer(string: request))
        return channel
    }

    private final class Collector: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        private let pieces: AsyncStream<String>.Continuation

        init(pieces: AsyncStream<String>.Continuation) { self.pieces = pieces }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            pieces.yield(String(buffer: unwrapInboundIn(data)))
        }

        func channelInactive(context: ChannelHandlerContext) { pieces.finish() }
    }
}
