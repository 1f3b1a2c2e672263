internal import Hummingbird
internal import TidemarkServer

/// `POST /sync`: one round of synchronisation.
///
/// The body is JSON whatever its `Content-Type` says, since `curl -d` calls everything a form.
struct SyncRoute {
    let service: any SyncService
    let bodyReader: BodyReader

    /// Answers one request.
    @Sendable func answer(_ request: Request, _ context: ServerRequestContext) async throws
        -> Response
    {
        let zone = try context.zone
        let body = try await bodyReader.read(request)
        try await HeldRequest(service: service, zone: zone, channel: context.channel).wait(body)
        let answer = try await service.sync(zone: zone, body: body)
        return try await JSONAnswer.response(answer, to: request.headers)
    }
}
