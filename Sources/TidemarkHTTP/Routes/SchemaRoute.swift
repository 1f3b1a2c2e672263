internal import Hummingbird
internal import TidemarkServer

/// `GET /schema`: the statements that make the zone's tables.
struct SchemaRoute {
    let service: any SyncService
    let memory: InFlightMemory
    let compressed: CompressedAnswers

    /// Answers one request.
    @Sendable func answer(_ request: Request, _ context: ServerRequestContext) async throws -> Response {
        let schema = try await service.schema(zone: try context.zone)
        return try await JSONAnswer.response(schema, to: request.headers, share: memory.share(), shared: compressed)
    }
}
