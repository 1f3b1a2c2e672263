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
    let compressed: CompressedAnswers

    /// Answers one request.
    @Sendable func answer(_ request: Request, _ context: ServerRequestContext) async throws
        -> Response
    {
        let zone = try context.zone
        let body = try await bodyReader.read(request, on: context.channel)
        try await HeldRequest(service: service, zone: zone, channel: context.channel).wait(body)
        let answer = try await service.sync(zone: zone, body: body)
        return try await JSONAnswer.response(
            answer,
            to: request.headers,
            shared: compressed
        )
    }

    /// Answers a device that says by an entity tag what it has.
    @Sendable func news(_ request: Request, _ context: ServerRequestContext) async throws
        -> Response
    {
        let zone = try context.zone
        guard let device = DeviceQuery.device(in: request),
            let tag = request.headers[.ifNoneMatch].flatMap(ZoneTag.init(entityTag:)),
            let news = try await service.news(zone: zone, device: device, since: tag)
        else { throw Self.fullRequestRequired }
        guard case .answer(let answer, let end) = news else {
            return Response(
                status: .notModified,
                headers: [.eTag: tag.entityTag, .cacheControl: "no-store"]
            )
        }
        var response = try await JSONAnswer.response(
            answer,
            to: request.headers,
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
