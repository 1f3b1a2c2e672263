internal import Hummingbird
internal import TidemarkCore
internal import TidemarkEngine

/// `POST /token`: exchanges a token for a device's own; `DELETE /token`: signs a device out.
struct TokenRoute {
    let issuer: any TokenIssuer
    let body: SmallBody
    private static let deviceBytesMax = 64

    private struct Exchange: Decodable { let device: String }

    /// Answers `POST /token`.
    @Sendable func exchange(_ request: Request, _ context: ServerRequestContext, token: String) async throws -> Response
    {
        let exchange = try await body.read(Exchange.self, from: request, context, form: #"{"device":"ID"}"#)
        guard Self.isValid(exchange.device) else { throw Self.badDevice }
        return try await SmallBody.answer(try await issuer.exchange(token, device: exchange.device), to: request)
    }

    /// Answers `DELETE /token`.
    @Sendable func revoke(_ request: Request, _ context: ServerRequestContext, token: String) async throws -> Response {
        try await issuer.revoke(token)
        return SmallBody.done
    }

    private static func isValid(_ device: String) -> Bool {
        (1...deviceBytesMax).contains(device.utf8.count)
            && device.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control }
    }

    private static let badDevice = TidemarkError(
        .malformedRequest, "The device's id is empty, too long, or has control characters.",
        fix: #"Send {"device":"ID"}, with an id of at most \#(deviceBytesMax) bytes without control characters."#)
}
