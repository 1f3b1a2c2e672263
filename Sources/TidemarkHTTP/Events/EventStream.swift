internal import Foundation
internal import HTTPTypes
internal import NIOCore
internal import Synchronization
internal import TidemarkCore
internal import TidemarkServer

/// What listeners are told, as server-sent events: the text that goes over the wire.
struct EventStream {
    /// When a listener may come back that was sent away: another node, or this one, is ready soon.
    private static let retryMilliseconds = 2_000

    /// What a stream begins with, so that the client sees at once that it is one.
    static let opening = ByteBuffer(string: ": tidemark\n\n")

    static let headers: HTTPFields = [
        .contentType: "text/event-stream", .cacheControl: "no-store",
        // A proxy that collects an answer before it passes it on would never pass this one on.
        .xAccelBuffering: "no",
    ]

    private static let heartbeat = ByteBuffer(string: ":\n\n")
    private static let bye = ByteBuffer(
        string: """
            event: bye
            retry: \(retryMilliseconds)
            data: {"retry":\(retryMilliseconds)}


            """
    )

    /// The zone as a JSON string.
    private let zone: String

    init(zone: String) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .withoutEscapingSlashes
        self.zone = String(decoding: try encoder.encode(zone), as: UTF8.self)
    }

    /// A message's text.
    func text(_ message: FanOut.Message) -> ByteBuffer {
        switch message {
        case .heartbeat: return Self.heartbeat
        case .bye: return Self.bye
        case .moved(let to):
            return ByteBuffer(
                string: """
                    id: \(to.id)
                    data: {"zone":\(zone),"epoch":"\(to.epoch)","revision":\(to.revision)}


                    """
            )
        case .changed(let change):
            // JSON has no line feeds, so the answer is one line of the data.
            return ByteBuffer(
                string: """
                    event: change
                    id: \(change.end.id)
                    data: \(change.since.entityTag)
                    data: \(change.answer)


                    """
            )
        }
    }
}

/// The text of the message that was told last, which most listeners of a zone are told: written
/// once, and its memory shared by all connections that it is written to.
final class LatestEvent: Sendable {
    private let latest = Mutex<(message: FanOut.Message, text: ByteBuffer)?>(nil)

    /// The text of a message on a stream.
    func text(_ message: FanOut.Message, on stream: EventStream) -> ByteBuffer {
        guard message != .heartbeat, message != .bye else { return stream.text(message) }
        return latest.withLock { latest in
            if let latest, latest.message == message { return latest.text }
            let text = stream.text(message)
            latest = (message, text)
            return text
        }
    }
}

extension HTTPField.Name {
    /// What a listener was told last.
    static let lastEventID = named("Last-Event-ID")
    /// Whether a proxy may collect an answer.
    static let xAccelBuffering = named("X-Accel-Buffering")
}
