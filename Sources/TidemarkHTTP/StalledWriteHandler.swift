internal import NIOCore

/// Closes a connection whose client has stopped reading its answer.
///
/// Answers are written in small pieces, so a connection that does not become writable for the whole
/// timeout moved less than one piece in that time. Hummingbird's own timeout watches only the
/// reading.
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
            // From here towards the network: what stands behind would wait for the client.
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
