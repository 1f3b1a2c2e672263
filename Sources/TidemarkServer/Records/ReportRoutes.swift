internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import TidemarkCore
internal import TidemarkEngine

/// `GET /tables`, `GET /revisions` and `GET /revisions/{n}`: what a zone has, and what happened in it.
struct ReportRoutes: Sendable {
    let service: any SyncService
    let memory: InFlightMemory

    @Sendable func tables(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    { try await respond(to: request, access) { reader, _ in try ListTables(reader).json() } }

    @Sendable func revisions(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    {
        let query = try ListRevisions.Query(request.queryItems)
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
        let query = try ListRevisions.Query(request.queryItems)
        return try await respond(to: request, access) { reader, contacts in
            let table = try reader.schema.table(name)
            let key = try RecordPath.key(segment, of: table) { $0.removingPercentEncoding }
            return try RecordHistory(of: table, reader, contacts: contacts).json(key, query)
        }
    }

    @Sendable func devices(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    { try await respond(to: request, access) { try ListDevices($0, contacts: $1).json() } }

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
        let query = try ListConflicts.Query(request.queryItems)
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
