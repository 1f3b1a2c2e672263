internal import Foundation
internal import Hummingbird
internal import TidemarkEngine

/// `GET /digest`: the content hash of every table.
struct DigestRoute {
    let service: any SyncService
    let memory: InFlightMemory

    @Sendable func answer(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    {
        let digest = try await service.digest(access)
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return try await JSONAnswer.response(
            Array(try encoder.encode(digest)), to: request.headers, share: memory.share())
    }
}
