internal import NIOCore

/// Detects that a client disconnected while it waits for the server.
///
/// A read would detect it, but no task reads this connection, and the next write may be far away.
final class HangUpHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = NIOAny

    private var hasHungUp = false
    private var onHangUp: (@Sendable () -> Void)?

    /// Calls `onHangUp` when a channel's client disconnects, or at once if it already did.
    ///
    /// A later call replaces the closure of an earlier one.
    static func watch(_ channel: any Channel, _ onHangUp: @escaping @Sendable () -> Void) async throws {
        try await channel.eventLoop.submit {
            // A closed channel has no handlers.
            guard channel.isActive else { return onHangUp() }
            let handler = try channel.pipeline.syncOperations.handler(type: HangUpHandler.self)
            handler.onHangUp = onHangUp
            if handler.hasHungUp { onHangUp() }
        }.get()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed = event { reportHangUp() }
        context.fireUserInboundEventTriggered(event)
    }

    func channelInactive(context: ChannelHandlerContext) {
        reportHangUp()
        context.fireChannelInactive()
    }

    private func reportHangUp() {
        hasHungUp = true
        onHangUp?()
        onHangUp = nil
    }
}
