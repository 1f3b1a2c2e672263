import NIOCore
import NIOPosix

/// A connection that listens to events, and reads lines at the test's command.
final class RawListener {
    private let channel: any Channel
    private var pieces: AsyncStream<String>.Iterator
    private var rest = ""

    private init(_ channel: any Channel, _ pieces: AsyncStream<String>) {
        self.channel = channel
        self.pieces = pieces.makeAsyncIterator()
    }

    /// Requests events, and reads them unless the test delays that.
    static func open(
        _ server: TestServer, path: String = "/events", lastEventID: String? = nil, token: String? = nil,
        reads: Bool = true
    ) async throws -> RawListener {
        let id = lastEventID.map { "Last-Event-ID: \($0)\r\n" } ?? ""
        let authorization = token.map { "Authorization: Bearer \($0)\r\n" } ?? ""
        let head = "GET \(path) HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
        return try await connect(server, sending: "\(head)\(id)\(authorization)\r\n", reads: reads)
    }

    /// Sends the beginning of a request, and reads its answer unless the test delays that.
    static func connect(_ server: TestServer, sending request: String, reads: Bool = true) async throws -> RawListener {
        let (pieces, continuation) = AsyncStream.makeStream(of: String.self)
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton).channelOption(
            ChannelOptions.autoRead, value: reads
        ).channelOption(ChannelOptions.socketOption(.so_rcvbuf), value: 4_096).channelInitializer { channel in
            channel.eventLoop.makeCompletedFuture {
                try channel.pipeline.syncOperations.addHandler(Collector(continuation))
            }
        }.connect(host: "127.0.0.1", port: server.port).get()
        try await channel.writeAndFlush(ByteBuffer(string: request))
        return RawListener(channel, pieces)
    }

    /// Sends the rest of a request.
    func send(_ text: String) async throws { try await channel.writeAndFlush(ByteBuffer(string: text)) }

    /// Starts to read.
    func read() async throws {
        try await channel.setOption(.autoRead, value: true).get()
        channel.read()
    }

    /// The next line that begins with one of these; nil at the end.
    func line(_ beginnings: String...) async -> String? {
        while true {
            while let end = rest.firstIndex(where: \.isNewline) {
                let line = String(rest[..<end])
                rest.removeSubrange(...end)
                if beginnings.contains(where: line.hasPrefix) { return line }
            }
            guard let piece = await pieces.next(isolation: #isolation) else { return nil }
            rest += piece
        }
    }

    /// The revision of the next event; nil at the end.
    func revision() async -> Int64? {
        await line("id: ").flatMap { $0.split(separator: ":").last }.flatMap { Int64($0) }
    }

    func close() async throws { try await channel.close() }

    private final class Collector: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        private let pieces: AsyncStream<String>.Continuation

        init(_ pieces: AsyncStream<String>.Continuation) { self.pieces = pieces }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            pieces.yield(String(buffer: unwrapInboundIn(data)))
        }

        func channelInactive(context: ChannelHandlerContext) { pieces.finish() }
    }
}
