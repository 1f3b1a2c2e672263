internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import TidemarkCore
internal import TidemarkEngine

/// `GET /tables/{table}` and `GET /tables/{table}/{key}`: rows for clients that keep none.
struct RecordsRoute: Sendable {
    let service: any SyncService
    let memory: InFlightMemory

    @Sendable func page(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    {
        let name = try context.name("table")
        let items = try request.queryItems
        let known = request.headers[.ifNoneMatch]
        let answer = try await service.read(
            access,
            ZoneQuestion { reader in try ListRecords(reader).page(items, of: reader.schema.table(name), unlike: known) }
        )
        var response = try await respond(answer, to: request)
        response.headers[.customName("Link")] = answer.next.map { Self.link(to: $0, request) }
        return response
    }

    @Sendable func record(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    {
        let name = try context.name("table")
        let segment = context.parameters.get("key") ?? ""
        let items = try request.queryItems
        let known = request.headers[.ifNoneMatch]
        let answer = try await service.read(
            access,
            ZoneQuestion { reader in
                let records = ListRecords(reader)
                let table = try reader.schema.table(name)
                let key = try RecordPath.key(segment, of: table) { $0.removingPercentEncoding }
                return try records.record(key, in: table, selecting: items, unlike: known)
            }
        )
        return try await respond(answer, to: request)
    }

    private func respond(_ answer: ListRecords.Answer, to request: Request) async throws -> Response {
        guard let json = answer.json else {
            return Response(status: .notModified, headers: [.eTag: answer.entityTag, .cacheControl: Self.caching])
        }
        var response = try await JSONAnswer.response(Array(json.utf8), to: request.headers, share: memory.share())
        response.headers[.eTag] = answer.entityTag
        response.headers[.cacheControl] = Self.caching
        return response
    }

    /// A browser may keep the answer, and asks each time whether it is still true.
    static let caching = "private, no-cache"

    /// The address of the next page, relative to this one.
    private static func link(to next: String, _ request: Request) -> String {
        let rest = (request.uri.query ?? "").split(separator: "&").filter { !$0.hasPrefix("after=") }
        return "<?\((rest.map(String.init) + ["after=\(next)"]).joined(separator: "&"))>; rel=\"next\""
    }
}
