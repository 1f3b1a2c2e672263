internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import Logging
internal import TidemarkCore
internal import TidemarkEngine

/// `POST /sync`: one round of synchronization; `GET /sync`: a conditional GET; `POST /fingerprints`: a comparison.
///
/// A device with nothing to send uses the conditional GET. `Content-Type` is ignored: `curl -d` calls JSON a form.
struct SyncRoute {
    let service: any SyncService
    let bodyReader: BodyReader
    let memory: InFlightMemory
    let compressedAnswers: CompressedAnswers

    func answer(_ kind: @escaping @Sendable ([UInt8]) -> ZoneRequest.Kind) -> Route.Answer.InZone {
        { request, context, access in
            let share = memory.share()
            // The body is released before the answer is compressed.
            func answer() async throws -> [UInt8] {
                let body = try await bodyReader.read(request, on: context.channel, share: share)
                if planted(PlantedBug.logsValues) { context.logger.info("\(String(decoding: body, as: UTF8.self))") }
                return try await service.answer(ZoneRequest(kind(body), access: access)).text
            }
            return try await JSONAnswer.response(
                try await answer(), to: request.headers, share: share, shared: compressedAnswers)
        }
    }

    /// Answers a conditional GET, whose entity tag identifies the device's rows.
    @Sendable func news(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    {
        guard let device = request.device,
            let tag = request.headers[.ifNoneMatch].flatMap(ZoneTag.init(entityTag:)),
            let news = try await service.news(access, device: device, since: tag)
        else { throw Self.fullRequestRequired }
        guard case .answer(let answer, let end) = news else {
            return Response(status: .notModified, headers: [.eTag: tag.entityTag, .cacheControl: "no-store"])
        }
        var response = try await JSONAnswer.response(
            answer, to: request.headers, share: memory.share(), shared: compressedAnswers)
        response.headers[.eTag] = end.entityTag
        // No cache stores the answer, so `Vary` is useless, and 304 would have to repeat it.
        response.headers[.vary] = nil
        return response
    }

    private static let fullRequestRequired = TidemarkError(
        .fullRequestRequired, "The server cannot answer this device by a conditional GET.",
        fix: "Send POST /sync, which the server always answers.")
}
