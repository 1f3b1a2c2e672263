internal import NIOCore

/// One direction of a relayed connection: what this end reads, its peer writes.
///
/// An end reads only while its peer can write, so a slow reader slows the writer down as it would
/// without a relay between them.
final class RelayHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let peer: any Channel
    private let pass: (ByteBuffer) -> ByteBuffer
    private let endsPeer: () -> Bool

    /// Makes the handler of one end.
    ///
    /// - Parameters:
    ///   - peer: The other end, on the same event loop.
    ///   - endsPeer: Whether the other end closes with this one.
    ///   - pass: Sees all bytes, and returns those to pass on.
    init(
        peer: any Channel,
        endsPeer: @escaping () -> Bool = { true },
        pass: @escaping (ByteBuffer) -> ByteBuffer
    ) {
        (self.peer, self.endsPeer, self.pass) = (peer, endsPeer, pass)
    }

    func handlerAdded(context: ChannelHandlerContext) {
        if context.channel.isActive { context.read() }
    }

    func channelActive(context: ChannelHandlerContext) { context.read() }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        peer.write(pass(unwrapInboundIn(data)), promise: nil)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        peer.flush()
        if peer.isWritable { context.read() }
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable { peer.read() }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        // This side has said all it has to say, and still listens.
        if case .inputClosed? = event as? ChannelEvent { closePeer(mode: .output) }
    }

    func channelInactive(context: ChannelHandlerContext) { closePeer(mode: .all) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }

    /// Closes the peer when all that is on its way there has been written.
    private func closePeer(mode: CloseMode) {
        guard endsPeer() else { return }
        peer.writeAndFlush(ByteBuffer()).whenComplete { [peer] _ in
            peer.close(mode: mode, promise: nil)
        }
    }
}
