internal import Foundation
internal import NIOCore
internal import NIOHTTP1
internal import TidemarkCore

/// Refuses a request with two `Host` headers, and one of HTTP/1.1 without any (RFC 9112, section 3.2).
///
/// The handlers behind it keep the first header only, so a proxy and the server could read two different names.
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
            .malformedRequest,
            "The request does not have exactly one Host header.",
            fix: "Send one Host header with the name of the server."
        )
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
