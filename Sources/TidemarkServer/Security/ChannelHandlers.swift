internal import Foundation
internal import Hummingbird
internal import NIOCore
internal import NIOHTTP1
internal import Synchronization
internal import TidemarkCore

/// Refuses a request with two `Host` headers, as a proxy may read the other one, or none (RFC 9112, section 3.2).
final class HostHeaderHandler: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    /// The requests on the connection whose answers have not ended.
    private var openRequests = 0
    private var hasRefused = false

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !hasRefused else { return }
        if case .head(let head) = unwrapInboundIn(data) {
            let count = head.headers["Host"].count
            guard count == 1 || count == 0 && head.version == .http1_0 else { return refuse(context, head.version) }
            openRequests += 1
        }
        context.fireChannelRead(data)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if case .end = unwrapOutboundIn(data) { openRequests -= 1 }
        context.write(data, promise: promise)
    }

    private func refuse(_ context: ChannelHandlerContext, _ version: HTTPVersion) {
        hasRefused = true
        // The answer to an earlier request must not be mixed with this one.
        guard openRequests == 0 else { return context.close(promise: nil) }
        let body = context.channel.allocator.buffer(bytes: Self.body)
        let headers: HTTPHeaders = [
            "Connection": "close", "Content-Type": "application/json", "Content-Length": "\(body.readableBytes)",
        ]
        let head = HTTPResponseHead(version: version, status: .badRequest, headers: headers)
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.write(wrapOutboundOut(.body(.byteBuffer(body))), promise: nil)
        let bound = NIOLoopBound(context, eventLoop: context.eventLoop)
        context.writeAndFlush(wrapOutboundOut(.end(nil))).whenComplete { _ in bound.value.close(promise: nil) }
    }

    private static let body: [UInt8] = {
        let error = TidemarkError(
            .malformedRequest, "The request does not have exactly one Host header.",
            fix: "Send one Host header with the name of the server.")
        // The text of an error that stands above is always JSON.
        return Array((try? JSONEncoder().encode(WireError(error))) ?? Data())
    }()
}

/// Puts a ``HostHeaderHandler`` behind the decoder of its connection.
final class HostHeaderInstaller: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = NIOAny

    func handlerAdded(context: ChannelHandlerContext) {
        let pipeline = context.pipeline.syncOperations
        do {
            let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPRequestDecoder>.self)
            try pipeline.addHandler(HostHeaderHandler(), position: .after(decoder))
        } catch { context.fireErrorCaught(error) }
    }
}

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
    private var closing: EventLoopPromise<Void>?
    private var end: Scheduled<Void>?

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

    private func close(_ context: ChannelHandlerContext) {
        guard let closing else { return }
        self.closing = nil
        end?.cancel()
        context.close(mode: .all, promise: closing)
    }
}

/// Closes a connection that stays unwritable for the whole timeout, because its client reads less than a small piece.
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

/// Detects that a client disconnected while it waits: no task reads the connection, and a write may be far away.
final class HangUpHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = NIOAny

    private var hasHungUp = false
    private var onHangUp: (@Sendable () -> Void)?

    /// Calls `onHangUp` when a channel's client disconnects, or at once if it already did; the last call counts.
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
