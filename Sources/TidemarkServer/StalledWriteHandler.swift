internal import NIOCore

/// Closes a connection whose client has stopped reading its answer.
///
/// The server writes answers in small pieces. So a connection that stays unwritable for the whole
/// timeout moved less than one piece. Hummingbird's own timeout covers only reads.
final class StalledWriteHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = NIOAny

    private let timeout: TimeAmount
    private var closing: Scheduled<Void>?

    init(timeout: TimeAmount) { self.timeout = timeout }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable {
            stop()
        } else if closing == nil {
            let context = NIOLoopBound(context, eventLoop: context.eventLoop)
            // Close from here towards the network: handlers behind this one would wait for the client.
            closing = context.value.eventLoop.scheduleTask(in: timeout) { context.value.close(promise: nil) }
        }
        context.fireChannelWritabilityChanged()
    }

    func channelInactive(context: ChannelHandlerContext) {
        stop()
        context.fireChannelInactive()
    }

    func handlerRemoved(context: ChannelHandlerContext) { stop() }

    private func stop() {
        closing?.cancel()
        closing = nil
    }
}
