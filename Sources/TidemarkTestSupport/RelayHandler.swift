internal import NIOCore

/// One direction of a relayed connection: the peer writes the bytes that this end reads.
///
/// An end reads only while its peer can write, so a slow reader slows the writer down as it would
/// without a relay between them.
final class RelayHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let peer: any Channel
    private let delay: TimeAmount
    private let pass: (ByteBuffer) -> ByteBuffer
    private let endsPeer: () -> Bool

    /// Makes the handler of one end.
    ///
    /// - Parameters:
    ///   - peer: The other end, on the same event loop.
    ///   - delay: The time of the way to the other end.
    ///   - endsPeer: Whether the other end closes with this one.
    ///   - pass: Sees all bytes, and returns those to pass on.
    init(
        peer: any Channel, delay: TimeAmount, endsPeer: @escaping () -> Bool = { true },
        pass: @escaping (ByteBuffer) -> ByteBuffer
    ) {
        self.peer = peer
        self.delay = delay
        self.endsPeer = endsPeer
        self.pass = pass
    }

    func handlerAdded(context: ChannelHandlerContext) { if context.channel.isActive { context.read() } }

    func channelActive(context: ChannelHandlerContext) { context.read() }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let bytes = pass(unwrapInboundIn(data))
        arrive(peer) { $0.write(bytes, promise: nil) }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        arrive(peer) { $0.flush() }
        if peer.isWritable { context.read() }
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) { if context.channel.isWritable { peer.read() } }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        // This side has sent everything, and still listens.
        if case .inputClosed? = event as? ChannelEvent { closePeer(mode: .output) }
    }

    func channelInactive(context: ChannelHandlerContext) { closePeer(mode: .all) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    /// Closes the peer when all bytes on their way there are written.
    private func closePeer(mode: CloseMode) {
        guard endsPeer() else { return }
        arrive(peer) { peer in
            peer.writeAndFlush(ByteBuffer()).whenComplete { _ in peer.close(mode: mode, promise: nil) }
        }
    }

    /// Runs work at the other end after the delay, in order.
    private func arrive(_ peer: any Channel, _ work: @escaping @Sendable (any Channel) -> Void) {
        guard delay > .zero else { return work(peer) }
        peer.eventLoop.scheduleTask(in: delay) { work(peer) }
    }
}
