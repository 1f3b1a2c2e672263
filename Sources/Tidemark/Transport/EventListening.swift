internal import AsyncHTTPClient
internal import Foundation
internal import NIOCore
internal import NIOHTTP1
internal import TidemarkCore

/// Reads the server's events from the network and passes them to a callback.
struct EventListening {
    let address: ServerAddress
    /// The zone of the events; nil for all zones of the user.
    let zone: String?

    func run(_ response: HTTPClientResponse, heard: @Sendable (PushEvent) -> Void) async throws {
        let type = response.headers.first(name: "Content-Type") ?? "no content type"
        guard type.lowercased().hasPrefix("text/event-stream") else { throw address.foreign("a page of \(type)") }
        var reader = EventStreamReader()
        for try await piece in response.body {
            do {
                for item in try reader.parse(piece.readableBytesView) {
                    if let event = try event(item) { heard(event) }
                }
            } catch is EventStreamReader.TooLong {
                throw address.foreign("an event without an end")
            } catch is DecodingError { throw address.foreign("an event of another kind") }
        }
    }

    /// Decodes an event; nil if only a later version knows it.
    private func event(_ item: EventStreamReader.Item) throws -> PushEvent? {
        guard case .event(let event) = item else { return .alive }
        switch event.name {
        case "message":
            let moved = try JSONDecoder().decode(ZoneRevision.self, from: Data(event.data.utf8))
            return [nil, ZoneKind.privateAlias, moved.zone].contains(zone) ? .moved(moved) : nil
        case "zones": return .zonesChanged
        case "change": return change(event).map(PushEvent.changed)
        case "bye": return .bye(retryMilliseconds: event.retry)
        default: return nil
        }
    }

    /// Decodes a pushed change: one line with the tag of the device's rows, and one with the answer.
    private func change(_ event: EventStreamReader.Event) -> PushedChange? {
        let lines = event.data.split(separator: "\n", maxSplits: 1)
        guard let zone, lines.count == 2, let since = ZoneTag(entityTag: String(lines[0])),
            let end = event.id.flatMap({ ZoneRevision(zone: zone, id: $0) })
        else { return nil }
        return PushedChange(end: end, since: since, answer: Array(lines[1].utf8))
    }
}
