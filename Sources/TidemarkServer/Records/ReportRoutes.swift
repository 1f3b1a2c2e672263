internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import TidemarkCore
internal import TidemarkEngine

/// What a zone has, and what happened in it: `GET /tables`, `GET /revisions`, `GET /schema` and more.
struct ReportRoutes: Sendable {
    let service: any SyncService
    let bodyReader: BodyReader
    let memory: InFlightMemory
    var compressedAnswers = CompressedAnswers()

    /// Answers `GET /schema`: the statements that create the zone's tables.
    @Sendable func schema(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    {
        let schema = try await service.schema(access)
        return try await JSONAnswer.response(
            schema.json, to: request.headers, share: memory.share(), shared: compressedAnswers)
    }

    /// Answers `GET /digest`: the content hash of every table.
    @Sendable func digest(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    { try await SmallBody.answer(try await service.digest(access), to: request) }

    /// Answers `POST /compare/{table}`: how the rows that a client keeps of a table differ from the zone's.
    @Sendable func compare(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    {
        let name = try context.name("table")
        let share = memory.share()
        let body = try await bodyReader.read(request, on: context.channel, share: share)
        let json = try await service.read(access, ZoneQuestion { try ComparePart(body, of: name, $0).json() })
        return try await JSONAnswer.response(Array(json.utf8), to: request.headers, share: share)
    }

    @Sendable func tables(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    { try await respond(to: request, access) { reader, _ in try reader.tablesJSON() } }

    @Sendable func revisions(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    {
        let query = try PageQuery(request.queryItems)
        return try await respond(to: request, access) { try ListRevisions($0, contacts: $1).json(query) }
    }

    @Sendable func revision(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    {
        guard let revision = Int64(try context.name("revision")), revision >= 0, revision < .max else {
            throw TidemarkError(.invalidKey, "The path has no revision.", fix: "Write /revisions/1042.")
        }
        return try await respond(to: request, access) { try ListRevisions($0, contacts: $1).json(revision) }
    }

    @Sendable func history(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    {
        let name = try context.name("table")
        let segment = context.parameters.get("key") ?? ""
        let query = try PageQuery(request.queryItems)
        return try await respond(to: request, access) { reader, contacts in
            let table = try reader.schema.table(name)
            let key = try RecordPath.key(segment, of: table) { $0.removingPercentEncoding }
            return try RecordHistory(of: table, reader, contacts: contacts).json(key, query)
        }
    }

    @Sendable func devices(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    { try await respond(to: request, access) { try $0.devicesJSON($1) } }

    /// Forgets a device of any user in one zone; a device that is not there changes nothing.
    @Sendable func forget(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    {
        try await service.forgetDevice(access, device: context.name("device"))
        return SmallBody.done
    }

    @Sendable func conflicts(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    {
        let query = try PageQuery(request.queryItems, isFiltered: false)
        return try await respond(to: request, access) { try ListConflicts($0, contacts: $1).json(query) }
    }

    private func respond(
        to request: Request, _ access: ZoneAccess,
        _ json: @escaping @Sendable (any ZoneReader, [DeviceContact]) throws -> String
    ) async throws -> Response {
        let contacts = service.contacts.contacts(of: access.zone)
        let text = try await service.read(access, ZoneQuestion { try json($0, contacts) })
        return try await JSONAnswer.response(Array(text.utf8), to: request.headers, share: memory.share())
    }
}
