internal import Hummingbird
internal import TidemarkEngine

/// `POST /fingerprints`: compares ranges of a device's rows with the zone's.
struct FingerprintsRoute {
    let service: any SyncService
    let bodyReader: BodyReader
    let memory: InFlightMemory

    /// Answers one request.
    @Sendable func answer(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    {
        let share = memory.share()
        let answer = try await handle(request, context: context, access: access, share: share)
        return try await JSONAnswer.response(answer, to: request.headers, share: share)
    }

    /// Reads the body and returns the service's answer; the body is released when this returns.
    private func handle(_ request: Request, context: ServerRequestContext, access: ZoneAccess, share: MemoryShare)
        async throws
        -> [UInt8]
    {
        let body = try await bodyReader.read(request, on: context.channel, share: share)
        return try await service.fingerprints(access, body: body)
    }
}
