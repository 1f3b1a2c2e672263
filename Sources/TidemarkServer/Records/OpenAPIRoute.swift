internal import HTTPTypes
internal import Hummingbird
internal import TidemarkCore
internal import TidemarkEngine

/// `GET /openapi.json`: the description of a zone's interface for clients without rows.
struct OpenAPIRoute: Sendable {
    let service: any SyncService
    let memory: InFlightMemory
    private let compressedAnswers = CompressedAnswers()
    let routes: Set<String>
    private let documents = OpenAPIDocuments()

    init(service: any SyncService, memory: InFlightMemory, about routes: [Route]) {
        self.service = service
        self.memory = memory
        self.routes = Set(routes.map { "\($0.method.rawValue) \($0.path)" } + ["GET \(Self.path)"])
    }

    static let path = "/openapi.json"

    @Sendable func answer(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    {
        let known = request.headers[.ifNoneMatch]
        let prefix = context.parameters.get("zone") == nil ? "" : "/zones/\(RecordPath.encode(access.zone))"
        let answer = try await service.read(
            access,
            ZoneQuestion { reader in
                let tag = "\"\(reader.state.schema)-\(TidemarkVersion.current)\""
                if ListRecords.matches(known, tag) { return (tag, [UInt8]?.none) }
                let key = OpenAPIDocuments.Key(schema: reader.state.schema, prefix: prefix)
                let document = OpenAPIDocument(reader.schema, prefix: prefix, routes: routes)
                return (tag, documents.json(of: key) { document.json })
            }
        )
        let (tag, json) = answer
        var response: Response
        if let json {
            let share = memory.share()
            response = try await JSONAnswer.response(json, to: request.headers, share: share, shared: compressedAnswers)
        } else {
            response = Response(status: .notModified)
        }
        response.headers[.eTag] = tag
        response.headers[.cacheControl] = RecordsRoute.caching
        return response
    }
}
