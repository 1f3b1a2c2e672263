internal import NIOCore

/// Lets what was written of an answer go out before the connection is closed behind it.
///
/// A server that stops closes each connection after its answer's last piece was written, which is
/// not yet sent when the client reads slowly; NIO drops what waits when a channel is closed. A
/// client that stops reading altogether is the affair of ``StalledWriteHandler``, which stands
/// nearer to the network and closes without asking. It does not see a client that leaves less
/// unread than the channel holds back, so the wait here has an end of its own.
final class FlushBeforeCloseHandler: ChannelOutboundHandler, RemovableChannelHandler {
    typealias OutboundIn = Any
    typealias OutboundOut = Any

    private let timeout: TimeAmount
    /// The writes that are not out yet.
    private var pending = 0
    /// Whoever waits for the connection to be closed.
    private var closing: EventLoopPromise<Void>?
    /// The end of the wait.
    private var end: Scheduled<Void>?

    /// Makes a handler that waits at most so long for what was written.
    init(timeout: TimeAmount) { self.timeout = timeout }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        let written = promise ?? context.eventLoop.makePromise()
        pending += 1
        let box = NIOLoopBound((handler: self, context: context), eventLoop: context.eventLoop)
        written.futureResult.whenComplete { _ in
            let (handler, context) = box.value
            handler.wentOut(context)
        }
        context.write(data, promise: written)
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

    private func wentOut(_ context: ChannelHandlerContext) {
        pending -= 1
        if pending == 0 { close(context) }
    }

    /// Closes the connection if somebody waits for that.
    private func close(_ context: ChannelHandlerContext) {
        guard let closing else { return }
        self.closing = nil
        end?.cancel()
        context.close(mode: .all, promise: closing)
    }
}
