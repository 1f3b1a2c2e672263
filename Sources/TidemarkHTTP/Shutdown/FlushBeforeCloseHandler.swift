internal import NIOCore

/// Lets what was written of an answer go out before the connection is closed behind it.
///
/// A server that stops closes each connection after its answer's last piece was written, which is
/// not yet sent when the client reads slowly; NIO drops what waits when a channel is closed. A
/// client that stops reading altogether is the affair of ``StalledWriteHandler``, which stands
/// nearer to the network and closes without asking.
final class FlushBeforeCloseHandler: ChannelOutboundHandler, RemovableChannelHandler {
    typealias OutboundIn = Any
    typealias OutboundOut = Any

    /// The writes that are not out yet.
    private var pending = 0
    /// Whoever waits for the connection to be closed.
    private var closing: EventLoopPromise<Void>?

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
        context.flush()
        guard let closing else {
            self.closing = promise ?? context.eventLoop.makePromise()
            return
        }
        closing.futureResult.cascade(to: promise)
    }

    private func wentOut(_ context: ChannelHandlerContext) {
        pending -= 1
        guard pending == 0, let closing else { return }
        self.closing = nil
        context.close(mode: .all, promise: closing)
    }
}
