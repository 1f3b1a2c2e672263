internal import HTTPTypes
internal import Hummingbird
internal import NIOCore

/// Writes a long answer no faster than the connection takes it.
///
/// The channel's writer waits while the client does not read, but learns that only on the channel's event
/// loop. While that loop is busy, a task could hand over all pieces of an answer, which would then lie in the
/// channel's memory and count for nobody. So after each piece the task visits the event loop: the piece is on
/// its way then, or the next write waits.
struct PacedWriter: ResponseBodyWriter {
    var writer: any ResponseBodyWriter
    let eventLoop: any EventLoop

    @concurrent mutating func write(_ buffer: ByteBuffer) async throws {
        try await writer.write(buffer)
        try await eventLoop.submit {}.get()
    }

    @concurrent consuming func finish(_ trailingHeaders: HTTPFields?) async throws {
        try await writer.finish(trailingHeaders)
    }
}
