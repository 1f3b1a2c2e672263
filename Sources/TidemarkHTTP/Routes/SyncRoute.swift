internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import TidemarkCore
internal import TidemarkServer

/// `POST /sync`: one round of synchronisation; and `GET /sync`, the same in few bytes for a device
/// that has nothing to say but what it has.
///
/// The body is JSON whatever its `Content-Type` says, since `curl -d` calls everything a form.
struct SyncRoute {
    let service: any SyncService
    let bodyReader: BodyReader
    let memory: InFlightMemory
    let compressed: CompressedAnswers

    /// Answers one request.
    @Sendable func answer(_ request: Request, _ context: ServerRequestContext) async throws -> Response {
        let share = memory.share()
        return try await JSONAnswer.response(
            try await handle(request, context, share),
            to: request.headers,
            share: share,
            shared: compressed
        )
    }

    /// The answer of the service; the body is gone when this returns.
    private func handle(_ request: Request, _ context: ServerRequestContext, _ share: MemoryShare) async throws
        -> [UInt8]
    {
        let zone = try context.zone
        let channel = context.channel
        let body = try await bodyReader.read(request, on: channel, share: share)
        try await HeldRequest(service: service, zone: zone, channel: channel).wait(body)
        return try await service.sync(zone: zone, body: body)
    }

    /// Answers a device that says by an entity tag what it has.
    @Sendable func news(_ request: Request, _ context: ServerRequestContext) async throws -> Response {
        let zone = try context.zone
        guard let device = DeviceQuery.device(in: request),
            let tag = request.headers[.ifNoneMatch].flatMap(ZoneTag.init(entityTag:)),
            let news = try await service.news(zone: zone, device: device, since: tag)
        else { throw Self.fullRequestRequired }
        guard case .answer(let answer, let end) = news else {
            return Response(status: .notModified, headers: [.eTag: tag.entityTag, .cacheControl: "no-store"])
        }
        var response = try await JSONAnswer.response(
            answer,
            to: request.headers,
            share: memory.share(),
            shared: compressed
        )
        response.headers[.eTag] = end.entityTag
        // Nobody stores it, so nobody needs to know what it varies with; and 304 would have to say
        // the same.
        response.headers[.vary] = nil
        return response
    }

    private static let fullRequestRequired = TidemarkError(
        .fullRequestRequired,
        "Whether anything is new cannot be told from so few words.",
        fix: "Send POST /sync, which is always answered."
    )
}
