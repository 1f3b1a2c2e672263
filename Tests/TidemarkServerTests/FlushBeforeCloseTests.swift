import NIOCore
import NIOEmbedded
import Testing

@testable import TidemarkServer

/// The end of a connection with unsent output, on a channel and a clock of the test's own.
@Suite struct FlushBeforeCloseTests {
    /// A network with a client that reads at the test's command.
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

    @Test func `a client that never reads the end of its answer is disconnected`() throws {
        let channel = try channel(to: SlowClient())
        channel.write(ByteBuffer(string: "an answer"), promise: nil)
        channel.close(promise: nil)
        channel.embeddedEventLoop.advanceTime(by: .seconds(59))
        #expect(channel.isActive && channel.isWritable)
        channel.embeddedEventLoop.advanceTime(by: .seconds(2))
        #expect(!channel.isActive)
        channel.embeddedEventLoop.run()
    }

    @Test func `a connection closes as soon as the client has read its answer`() throws {
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

    @Test func `a connection without pending output closes at once`() throws {
        let channel = try channel(to: SlowClient())
        channel.close(promise: nil)
        #expect(!channel.isActive)
        channel.embeddedEventLoop.run()
    }
}
