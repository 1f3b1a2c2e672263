internal import NIOHTTP1
internal import NIOSSL
internal import TidemarkCore

/// `POST /token`: exchanges a sign-in token or a device token for a new device token.
struct TokenExchange: Sendable {
    let address: ServerAddress
    let tls: TLSConfiguration?

    /// The largest answer, in bytes.
    private static let answerBytesMax = 64 << 10

    /// Throws ``TidemarkCore/ErrorCode/signInNeeded`` for a token that the server does not accept.
    func run(_ token: String, device: String) async throws -> TokenKeeper.NewToken {
        let exchange = HTTPExchange(
            address: address, tokens: ProvidedTokens { _ in token }, tls: tls, responseBytesMax: Self.answerBytesMax)
        let request = try exchange.request(.POST, address.url(path: "token"), body: ["device": device])
        return try exchange.decode(
            TokenKeeper.NewToken.self, from: await exchange.answer(to: request, read: exchange.json))
    }
}
