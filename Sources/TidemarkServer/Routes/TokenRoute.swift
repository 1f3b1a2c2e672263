internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import TidemarkCore
internal import TidemarkEngine

/// `POST /token`: exchanges a token for a device's own; `DELETE /token`: signs a device out.
struct TokenRoute {
    let issuer: any TokenIssuer
    let bodyReader: BodyReader
    let memory: InFlightMemory

    /// The most bytes of a device's id.
    private static let deviceBytesMax = 64

    private struct Exchange: Decodable {
        let device: String
    }

    /// Answers `POST /token`.
    @Sendable func exchange(_ request: Request, _ context: ServerRequestContext) async throws -> Response {
        let token = try Self.token(in: request)
        let share = memory.share()
        let body = try await bodyReader.read(request, on: context.channel, share: share)
        guard let wanted = try? JSONDecoder().decode(Exchange.self, from: Data(body)),
            (1...Self.deviceBytesMax).contains(wanted.device.utf8.count)
        else {
            throw TidemarkError(
                .malformedRequest,
                "The body names no device.",
                fix: #"Send {"device":"ID"}, with an id of at most \#(Self.deviceBytesMax) bytes."#
            )
        }
        let issued = try await issuer.exchange(token, device: wanted.device)
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return try await JSONAnswer.response(Array(try encoder.encode(issued)), to: request.headers, share: share)
    }

    /// Answers `DELETE /token`.
    @Sendable func revoke(_ request: Request, _ context: ServerRequestContext) async throws -> Response {
        try await issuer.revoke(try Self.token(in: request))
        return Response(status: .noContent, headers: [.cacheControl: "no-store"])
    }

    private static func token(in request: Request) throws -> String {
        guard let token = try BearerToken.text(in: request) else {
            throw TidemarkError(
                .signInNeeded,
                "The request has no token.",
                fix: "Send Authorization: Bearer and the token to exchange."
            )
        }
        return token
    }
}
