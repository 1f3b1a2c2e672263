internal import AsyncHTTPClient
internal import Foundation
internal import NIOCore
internal import NIOHTTP1
internal import NIOSSL
internal import TidemarkCore

/// `POST /token`: exchanges a sign-in token or a device token for a new device token.
struct TokenExchange: Sendable {
    let address: ServerAddress
    let tls: TLSConfiguration?

    /// The largest answer, in bytes.
    private static let answerBytesMax = 64 << 10

    private struct Question: Encodable { let device: String }

    /// Throws ``TidemarkCore/ErrorCode/signInNeeded`` for a token that the server does not accept.
    func run(_ token: String, device: String) async throws -> TokenKeeper.NewToken {
        let exchange = HTTPExchange(
            address: address, tokens: ProvidedTokens { _ in token }, tls: tls, responseBytesMax: Self.answerBytesMax)
        var request = HTTPClientRequest(url: address.url(path: "token"))
        request.method = .POST
        request.headers.add(name: "Content-Type", value: "application/json")
        request.body = .bytes(ByteBuffer(bytes: try JSONEncoder().encode(Question(device: device))))
        let answer = try await exchange.answer(to: request, read: exchange.json)
        do { return try JSONDecoder().decode(TokenKeeper.NewToken.self, from: Data(answer)) } catch {
            throw address.foreign("JSON that is no token")
        }
    }
}
