internal import Hummingbird
internal import TidemarkServer

/// `POST /fingerprints`: compares ranges of a device's rows with the zone's.
struct FingerprintsRoute {
    let service: any SyncService
    let bodyReader: BodyReader

    /// Answers one request.
    @Sendable func answer(_ request: Request, _ context: ServerRequestContext) async throws
        -> Response
    {
        let zone = try context.zone
        let body = try await bodyReader.read(request, on: context.channel)
        let answer = try await service.fingerprints(zone: zone, body: body)
        return try await JSONAnswer.response(answer, to: request.headers)
    }
}
