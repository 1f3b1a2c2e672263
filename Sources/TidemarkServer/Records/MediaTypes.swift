internal import HTTPTypes
internal import TidemarkCore

/// The media types of the requests and answers of clients without rows.
enum MediaTypes {
    private static let bodies: Set<String> = ["application/json", "application/merge-patch+json"]
    private static let answers: Set<String> = [
        "*/*", "application/*", "application/json", "application/problem+json",
    ]

    /// Checks `Accept`, and `Content-Type` if the request has a body.
    ///
    /// `null` is NULL and a missing member stays, so both types of bodies mean the same. A request need name none.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/notAcceptable`` or ``TidemarkCore/ErrorCode/unsupportedMediaType``.
    static func check(_ headers: HTTPFields, hasBody: Bool) throws(TidemarkError) {
        guard accepts(headers[.accept]) else {
            throw TidemarkError(
                .notAcceptable,
                "The server answers in JSON, which Accept excludes.",
                fix: "Send Accept: application/json, or leave it out."
            )
        }
        guard hasBody, let type = headers[.contentType].map(essence), !bodies.contains(type) else { return }
        throw TidemarkError(
            .unsupportedMediaType,
            "The server cannot read a body of this media type.",
            fix: "Send Content-Type: application/json; with curl, add -H 'Content-Type: application/json'."
        )
    }

    private static func accepts(_ header: String?) -> Bool {
        guard let header, !header.isEmpty else { return true }
        return header.split(separator: ",").contains { part in
            answers.contains(essence(part)) && !part.filter { $0 != " " }.lowercased().hasSuffix(";q=0")
        }
    }

    /// Returns a media type without its parameters.
    private static func essence(_ type: some StringProtocol) -> String {
        String(type.prefix { $0 != ";" }).filter { $0 != " " && $0 != "\t" }.lowercased()
    }
}
