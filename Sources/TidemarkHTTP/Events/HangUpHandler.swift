internal import NIOCore

/// Notices that a client has hung up while it waits for the server to say something.
///
/// Whoever reads a connection notices by itself; here nobody reads, and what is written next may
/// be a long time away.
final class HangUpHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = NIOAny

    private var hasHungUp = false
    private var react: (@Sendable () -> Void)?

    /// Calls `react` when the client of a channel hangs up, or has done so already; a later call
    /// takes the place of an earlier one.
    static func watch(_ channel: any Channel, _ react: @escaping @Sendable () -> Void) async throws {
        try await channel.eventLoop.submit {
            // A closed channel has no handlers any more.
            guard channel.isActive else { return react() }
            let handler = try channel.pipeline.syncOperations.handler(type: HangUpHandler.self)
            handler.react = react
            if handler.hasHungUp { react() }
        }.get()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed = event { hungUp() }
        context.fireUserInboundEventTriggered(event)
    }

    func channelInactive(context: ChannelHandlerContext) {
        hungUp()
        context.fireChannelInactive()
    }

    private func hungUp() {
        hasHungUp = true
        react?()
        react = nil
    }
}
