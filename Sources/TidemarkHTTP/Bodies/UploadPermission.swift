internal import Hummingbird
internal import NIOCore
internal import NIOHTTP1

/// Tells a client to go on that asks by `Expect: 100-continue` whether it may send its body.
enum UploadPermission {
    private static let head = ByteBuffer(string: "HTTP/1.1 100 Continue\r\n\r\n")

    /// Grants it, if the client waits for it.
    static func grant(_ request: Request, on channel: any Channel) async throws {
        guard request.waitsForPermission else { return }
        try await channel.eventLoop.submit {
            // From the encoder towards the network: the rest knows of one head a request.
            let encoder = try channel.pipeline.syncOperations.context(handlerType: HTTPResponseEncoder.self)
            encoder.writeAndFlush(NIOAny(head), promise: nil)
        }.get()
    }
}
