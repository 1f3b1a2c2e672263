internal import Hummingbird
internal import NIOCore
internal import NIOHTTP1

/// Sends `100 Continue` to a client that sent `Expect: 100-continue`.
enum UploadPermission {
    private static let head = ByteBuffer(string: "HTTP/1.1 100 Continue\r\n\r\n")

    /// Sends the permission if the client waits for it.
    static func grant(_ request: Request, on channel: any Channel) async throws {
        guard request.waitsForPermission else { return }
        try await channel.eventLoop.submit {
            // Write from the encoder towards the network: other handlers expect one head per request.
            let encoder = try channel.pipeline.syncOperations.context(handlerType: HTTPResponseEncoder.self)
            encoder.writeAndFlush(NIOAny(head), promise: nil)
        }.get()
    }
}
