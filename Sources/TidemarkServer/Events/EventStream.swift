internal import Foundation
internal import HTTPTypes
internal import NIOCore
internal import Synchronization
internal import TidemarkCore
internal import TidemarkEngine

/// Renders messages to listeners as server-sent events.
enum EventStream {
    /// When a dismissed listener may reconnect, to this node or another.
    private static let retryMilliseconds = 2_000
    /// The first bytes of a stream, by which the client sees at once that the stream works.
    static let opening = ByteBuffer(string: ": tidemark\n\n")

    static let headers: HTTPFields = [
        .contentType: "text/event-stream", .cacheControl: "no-store",
        // A proxy that buffers whole answers would never forward this one.
        .xAccelBuffering: "no",
    ]

    private static let heartbeat = ByteBuffer(string: ":\n\n")
    private static let bye = ByteBuffer(
        string: """
            event: bye
            retry: \(retryMilliseconds)
            data: {"retry":\(retryMilliseconds)}


            """)

    static func text(_ message: FanOut.Message) throws -> ByteBuffer {
        switch message {
        case .heartbeat: return heartbeat
        case .bye: return bye
        case .listed(let version): return ByteBuffer(string: "event: zones\ndata: {\"version\":\(version)}\n\n")
        case .moved(let to):
            let zone = try quoted(to.zone)
            return ByteBuffer(
                string: """
                    id: \(to.id)
                    data: {"zone":\(zone),"epoch":"\(to.epoch)","revision":\(to.revision)}


                    """)
        case .changed(let change):
            // JSON has no line feeds, so the answer is one line of the data.
            return ByteBuffer(
                string: """
                    event: change
                    id: \(change.end.id)
                    data: \(change.since.entityTag)
                    data: \(change.answer)


                    """)
        }
    }

    private static func quoted(_ text: String) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .withoutEscapingSlashes
        return String(decoding: try encoder.encode(text), as: UTF8.self)
    }
}

/// The rendered text of the latest message, whose memory all connections share, since most listeners get the same.
final class LatestEvent: Sendable {
    private let latest = Mutex<(message: FanOut.Message, text: ByteBuffer)?>(nil)

    func text(_ message: FanOut.Message) throws -> ByteBuffer {
        guard message != .heartbeat, message != .bye else { return try EventStream.text(message) }
        return try latest.withLock { latest in
            if let latest, latest.message == message { return latest.text }
            let text = try EventStream.text(message)
            latest = (message, text)
            return text
        }
    }
}

extension HTTPField.Name {
    static let lastEventID = customName("Last-Event-ID")
    /// Whether a proxy may buffer an answer.
    static let xAccelBuffering = customName("X-Accel-Buffering")
}
