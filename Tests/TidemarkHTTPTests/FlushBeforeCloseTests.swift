import NIOCore
import NIOEmbedded
import Testing

@testable import TidemarkHTTP

/// How a connection ends whose answer is not out yet, on a channel and a clock of the test's own.
@Suite struct FlushBeforeCloseTests {
    /// The network behind which a client reads when the test says so.
    private final class SlowClient: ChannelOutboundHandler {
        typealias OutboundIn = ByteBuffer
        private var unread: [EventLoopPromise<Void>] = []

        func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
            if let promise { unread.append(promise) }
        }

        func read() {
            for promise in unread { promise.succeed(()) }
            unread = []
        }

        func handlerRemoved(context: ChannelHandlerContext) {
            for promise in unread { promise.fail(ChannelError.ioOnClosedChannel) }
            unread = []
        }
    }

    private func channel(to client: SlowClient) throws -> EmbeddedChannel {
        let channel = EmbeddedChannel(handlers: [client, FlushBeforeCloseHandler(timeout: .seconds(60))])
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        return channel
    }

    @Test func `a client that leaves the end of its answer unread is cut off anyway`() throws {
        let channel = try channel(to: SlowClient())
        channel.write(ByteBuffer(string: "an answer"), promise: nil)
        channel.close(promise: nil)
        channel.embeddedEventLoop.advanceTime(by: .seconds(59))
        #expect(channel.isActive && channel.isWritable)
        channel.embeddedEventLoop.advanceTime(by: .seconds(2))
        #expect(!channel.isActive)
        channel.embeddedEventLoop.run()
    }

    @Test func `a connection is closed as soon as the client has read its answer`() throws {
        let client = SlowClient()
        let channel = try channel(to: client)
        channel.write(ByteBuffer(string: "an answer"), promise: nil)
        channel.close(promise: nil)
        channel.close(promise: nil)
        #expect(channel.isActive)
        client.read()
        #expect(!channel.isActive)
        channel.embeddedEventLoop.advanceTime(by: .seconds(61))
    }

    @Test func `a connection with nothing to send is closed at once`() throws {
        let channel = try channel(to: SlowClient())
        channel.close(promise: nil)
        #expect(!channel.isActive)
        channel.embeddedEventLoop.run()
    }
}
