internal import Hummingbird
internal import TidemarkCore
internal import TidemarkEngine

/// `POST /compare/{table}`: how the rows that a client keeps of a table differ from the zone's.
struct CompareRoute: Sendable {
    let service: any SyncService
    let bodyReader: BodyReader
    let memory: InFlightMemory

    @Sendable func answer(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    {
        let name = try context.name("table")
        let share = memory.share()
        let body = try await bodyReader.read(request, on: context.channel, share: share)
        let json = try await service.read(access, ZoneQuestion { try ComparePart(body, of: name, $0).json() })
        return try await JSONAnswer.response(Array(json.utf8), to: request.headers, share: share)
    }
}
