internal import HTTPTypes
internal import Hummingbird
internal import TidemarkCore

/// The token of a request: `Authorization: Bearer TOKEN` (RFC 6750).
enum BearerToken {
    /// The most bytes of a token.
    private static let bytesMax = 8 << 10

    /// Returns the token; nil for a request without the header.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/signInNeeded`` for another scheme, or a token that is too long.
    static func text(in request: Request) throws -> String? {
        guard let value = request.headers[.authorization] else { return nil }
        let parts = value.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: true)
        guard parts.count == 2, parts[0].lowercased() == "bearer", parts[1].utf8.count <= bytesMax else {
            throw TidemarkError(
                .signInNeeded,
                "This server understands bearer tokens only.",
                fix: "Send Authorization: Bearer and a token of at most \(bytesMax) bytes."
            )
        }
        return String(parts[1])
    }
}
