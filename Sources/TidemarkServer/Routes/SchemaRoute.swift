internal import Hummingbird
internal import TidemarkEngine

/// `GET /schema`: the statements that create the zone's tables.
struct SchemaRoute {
    let service: any SyncService
    let memory: InFlightMemory
    let compressedAnswers: CompressedAnswers

    @Sendable func answer(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    {
        let schema = try await service.schema(access)
        return try await JSONAnswer.response(
            schema.json, to: request.headers, share: memory.share(), shared: compressedAnswers)
    }
}
