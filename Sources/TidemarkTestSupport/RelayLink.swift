internal import NIOCore
internal import NIOPosix

/// One connection through a relay, and its fault.
///
/// Both ends and all state live on one event loop.
final class RelayLink: @unchecked Sendable {
    // Used on its event loop only, so other threads may hold a reference.

    /// The messages of a link to its relay.
    enum Event {
        /// Bytes were passed on.
        case passed(RelayPlan.Direction, Int)
        /// The fault has struck.
        case struck
    }

    let client: any Channel
    private let fault: RelayPlan.Fault
    private let delay: TimeAmount
    private let tell: @Sendable (Event) -> Void
    private var target: (any Channel)?
    private var mirror: (any Channel)?
    private var passed: [RelayPlan.Direction: Int] = [:]
    private var heldBytes: [RelayPlan.Direction: ByteBuffer] = [:]
    private var isReleased = false
    private var hasStruck = false
    private var isFinished = false

    init(_ client: any Channel, fault: RelayPlan.Fault, delay: TimeAmount, tell: @escaping @Sendable (Event) -> Void) {
        self.client = client
        self.fault = fault
        self.delay = delay
        self.tell = tell
    }

    /// Joins the two ends.
    func connect(to target: any Channel, mirror: (any Channel)?) throws {
        self.target = target
        self.mirror = mirror
        // Held bytes on their way up outlive the client that sent them.
        let up = RelayHandler(peer: target, delay: delay, endsPeer: { !self.isHolding }) { self.pass($0, .up) }
        try client.pipeline.syncOperations.addHandler(up)
        try target.pipeline.syncOperations.addHandler(RelayHandler(peer: client, delay: delay) { self.pass($0, .down) })
        client.closeFuture.whenComplete { _ in mirror?.close(promise: nil) }
    }

    /// Releases the held bytes.
    ///
    /// If its client is gone, it returns after the target has answered all the same.
    func release() async throws { try await client.eventLoop.flatSubmit { self.letGo() }.get() }

    /// Releases the held bytes, without waiting.
    func releaseSoon() { client.eventLoop.execute { _ = self.letGo() } }

    /// Whether it holds bytes of the client.
    var isHolding: Bool { heldBytes[.up] != nil }

    private func letGo() -> EventLoopFuture<Void> {
        isReleased = true
        let up = heldBytes[.up]
        let down = heldBytes[.down]
        heldBytes = [:]
        if let down { write(down, .down, to: client) }
        guard let up, let target else { return client.eventLoop.makeSucceededVoidFuture() }
        write(up, .up, to: target)
        return client.isActive ? client.eventLoop.makeSucceededVoidFuture() : target.closeFuture
    }

    private func write(_ bytes: ByteBuffer, _ direction: RelayPlan.Direction, to end: any Channel) {
        tell(.passed(direction, bytes.readableBytes))
        if delay > .zero {
            arrive { end.writeAndFlush(bytes, promise: nil) }
        } else {
            end.writeAndFlush(bytes, promise: nil)
        }
    }

    /// Runs work later on this event loop, when all earlier bytes have arrived.
    private func arrive(_ work: @escaping @Sendable () -> Void) {
        guard delay > .zero else { return client.eventLoop.execute(work) }
        client.eventLoop.scheduleTask(in: delay, work)
    }

    // MARK: Passing

    /// Returns the bytes that may go on; the fault decides about the others.
    private func pass(_ bytes: ByteBuffer, _ direction: RelayPlan.Direction) -> ByteBuffer {
        guard !isFinished else { return ByteBuffer() }
        if direction == .down, !client.isActive {
            // The answer to a client that is gone.
            tell(.passed(.down, bytes.readableBytes))
            target?.close(promise: nil)
            return ByteBuffer()
        }
        var rest = bytes
        let room = room(direction)
        let now = rest.readSlice(length: min(room, rest.readableBytes)) ?? ByteBuffer()
        passed[direction, default: 0] += now.readableBytes
        if now.readableBytes > 0 { tell(.passed(direction, now.readableBytes)) }
        if direction == .up, let mirror { mirror.writeAndFlush(now, promise: nil) }
        if bytes.readableBytes >= room { reachedEnd(of: direction, rest) }
        return now
    }

    private func room(_ direction: RelayPlan.Direction) -> Int {
        switch fault {
        case .cut(direction, let count, _), .halfClose(direction, let count):
            return max(count - passed[direction, default: 0], 0)
        case .stall(direction, let count, _): return isReleased ? .max : max(count - passed[direction, default: 0], 0)
        case .overtaken where direction == .up: return isReleased ? .max : 0
        case .answerDropped where direction == .down: return 0
        default: return .max
        }
    }

    private func reachedEnd(of direction: RelayPlan.Direction, _ rest: ByteBuffer) {
        if !hasStruck {
            tell(.struck)
            if case .stall(_, _, let time?) = fault {
                client.eventLoop.scheduleTask(in: TimeAmount(time)) { _ = self.letGo() }
            }
        }
        hasStruck = true
        switch fault {
        case .stall, .overtaken: heldBytes[direction, default: ByteBuffer()].writeImmutableBuffer(rest)
        case .cut(_, _, let ending): hangUp(ending)
        case .halfClose:
            let peer = direction == .up ? target : client
            arrive { peer?.close(mode: .output, promise: nil) }
        default: hangUp(.close)
        }
    }

    private func hangUp(_ ending: RelayPlan.Ending) {
        isFinished = true
        arrive { [self] in
            for end in [client, target].compactMap({ $0 }) {
                guard ending == .reset, let options = end as? any SocketOptionProvider else {
                    end.close(promise: nil)
                    continue
                }
                options.setSoLinger(linger(l_onoff: 1, l_linger: 0)).whenComplete { _ in end.close(promise: nil) }
            }
        }
    }
}

/// Answers a client in the server's place, once its request is complete.
final class CannedReplyHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let reply: CannedReply
    private let struck: () -> Void
    private var request: [UInt8] = []
    private var isAnswered = false

    init(_ reply: CannedReply, struck: @escaping () -> Void) {
        self.reply = reply
        self.struck = struck
    }

    func handlerAdded(context: ChannelHandlerContext) { if context.channel.isActive { context.read() } }

    func channelActive(context: ChannelHandlerContext) { context.read() }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        request += unwrapInboundIn(data).readableBytesView
        guard !isAnswered, isComplete else { return }
        isAnswered = true
        struck()
        let channel = context.channel
        let writeFuture = channel.writeAndFlush(ByteBuffer(bytes: reply.bytes))
        if reply.forever.isEmpty {
            // Closes this side only: a close with unread bytes would be a reset, and lose the
            // answer.
            writeFuture.whenComplete { _ in channel.close(mode: .output, promise: nil) }
        } else {
            Self.write(ByteBuffer(bytes: reply.forever), foreverTo: channel)
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) { context.read() }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .inputClosed? = event as? ChannelEvent { context.close(promise: nil) }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    private static func write(_ bytes: ByteBuffer, foreverTo channel: any Channel) {
        channel.writeAndFlush(bytes).whenSuccess { write(bytes, foreverTo: channel) }
    }

    /// Whether the head, and the declared part of a body, has arrived.
    private var isComplete: Bool {
        let mark = Array("\r\n\r\n".utf8)
        guard request.count >= mark.count,
            let end = (0...request.count - mark.count).first(where: {
                request[$0..<$0 + mark.count].elementsEqual(mark)
            })
        else { return false }
        let head = String(decoding: request[..<end], as: UTF8.self).lowercased()
        let length = head.split(separator: "\r\n").first { $0.hasPrefix("content-length:") }.flatMap {
            Int($0.dropFirst("content-length:".count).drop { $0 == " " })
        }
        return request.count >= end + mark.count + (length ?? 0)
    }
}
