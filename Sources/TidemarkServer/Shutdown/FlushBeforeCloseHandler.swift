internal import NIOCore

/// Sends the rest of a written answer before the connection closes.
///
/// A stopping server closes each connection after it wrote the last piece of the answer. If the client
/// reads slowly, this piece still waits in the channel, and NIO drops it on close. For a client that
/// stops reading, ``StalledWriteHandler`` closes the channel, nearer to the network. That handler
/// does not notice a client whose rest fits into the channel's buffer, so the wait here has a timeout.
final class FlushBeforeCloseHandler: ChannelOutboundHandler, RemovableChannelHandler {
    typealias OutboundIn = Any
    typealias OutboundOut = Any

    private let timeout: TimeAmount
    /// The writes that are not sent yet.
    private var pending = 0
    /// The promise of the requested close.
    private var closing: EventLoopPromise<Void>?
    /// The timeout of the wait.
    private var end: Scheduled<Void>?

    /// Creates a handler that delays a close by at most `timeout`.
    init(timeout: TimeAmount) { self.timeout = timeout }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        let writePromise = promise ?? context.eventLoop.makePromise()
        pending += 1
        let box = NIOLoopBound((handler: self, context: context), eventLoop: context.eventLoop)
        writePromise.futureResult.whenComplete { _ in
            let (handler, context) = box.value
            handler.finishWrite(context)
        }
        context.write(data, promise: writePromise)
    }

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        guard mode == .all, pending > 0 else { return context.close(mode: mode, promise: promise) }
        if let closing { return closing.futureResult.cascade(to: promise) }
        closing = promise ?? context.eventLoop.makePromise()
        let box = NIOLoopBound((handler: self, context: context), eventLoop: context.eventLoop)
        end = context.eventLoop.scheduleTask(in: timeout) {
            let (handler, context) = box.value
            handler.close(context)
        }
        context.flush()
    }

    func handlerRemoved(context: ChannelHandlerContext) { end?.cancel() }

    private func finishWrite(_ context: ChannelHandlerContext) {
        pending -= 1
        if pending == 0 { close(context) }
    }

    /// Closes the connection if a close was requested.
    private func close(_ context: ChannelHandlerContext) {
        guard let closing else { return }
        self.closing = nil
        end?.cancel()
        context.close(mode: .all, promise: closing)
    }
}

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
