internal import AsyncHTTPClient
internal import Foundation
internal import NIOCore
internal import NIOHTTP1
internal import TidemarkCore

/// The usual requests.
extension HTTPExchange {
    /// Fetches a JSON object.
    func get(_ url: String) async throws -> [UInt8] {
        var request = HTTPClientRequest(url: url)
        request.headers.add(name: "Accept-Encoding", value: "gzip")
        return try await answer(to: request, read: json)
    }

    /// Makes a request with a small body in JSON, or without one.
    func request(_ method: HTTPMethod, _ url: String, body: (some Encodable)?) throws -> HTTPClientRequest {
        var request = HTTPClientRequest(url: url)
        request.method = method
        guard let body else { return request }
        request.headers.add(name: "Content-Type", value: "application/json")
        request.body = .bytes(ByteBuffer(bytes: try JSONEncoder().encode(body)))
        return request
    }

    /// Listens to the events of a zone after a revision, or, without a zone, to those of all zones of the user.
    func events(
        _ url: String, of zone: String?, after revision: ZoneRevision? = nil, heard: @Sendable (PushEvent) -> Void
    ) async throws {
        var request = HTTPClientRequest(url: url)
        request.headers.add(name: "Accept", value: "text/event-stream")
        if let revision { request.headers.add(name: "Last-Event-ID", value: revision.id) }
        try await answer(to: request, over: Self.listeners) { response in
            try await EventListening(address: address, zone: zone).run(response, heard: heard)
        }
    }

    func decode<Answer: Decodable>(_ type: Answer.Type, from json: [UInt8]) throws -> Answer {
        do { return try JSONDecoder().decode(type, from: Data(json)) } catch {
            throw address.foreign("JSON of another form")
        }
    }
}
