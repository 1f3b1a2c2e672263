internal import Foundation
internal import HTTPTypes
internal import TidemarkCore
internal import TidemarkEngine

/// The headers of a write.
struct WriteHeaders: Hashable, Sendable {
    /// The state that the client has seen.
    let precondition: Precondition
    /// The id of the change set, in lower case; nil if the client names none.
    let id: String?
    /// The revision up to which the client has seen the whole zone.
    let seen: Int64?
    /// The client's preferences.
    let preferences: Preferences

    /// Reads the headers of a request.
    ///
    /// - Parameters:
    ///   - headers: The headers.
    ///   - method: The method; that of a batch is `post`.
    /// - Throws: ``TidemarkCore/TidemarkError`` for a header that the server does not understand.
    init(_ headers: HTTPFields, of method: WriteRequest.Method) throws(TidemarkError) {
        try MediaTypes.check(headers, hasBody: method != .delete)
        preferences = try Preferences(headers[.prefer])
        precondition = try Precondition(
            ifMatch: headers[.ifMatch],
            ifNoneMatch: headers[.ifNoneMatch],
            of: method
        )
        id = try headers[.idempotencyKey].map { text throws(TidemarkError) in try Self.id(text) }
        seen = try headers[.tidemarkSeen].map { text throws(TidemarkError) in try Self.revision(text) }
    }

    private static func id(_ text: String) throws(TidemarkError) -> String {
        guard let id = UUID(uuidString: text.filter { $0 != "\"" }) else {
            throw TidemarkError(
                .invalidArgument,
                "Idempotency-Key is no UUID.",
                fix: "Send 128 new random bits as a UUID, and the same ones when you repeat the request."
            )
        }
        return id.uuidString.lowercased()
    }

    private static func revision(_ text: String) throws(TidemarkError) -> Int64 {
        guard let revision = Int64(text), revision >= 0 else {
            throw TidemarkError(
                .invalidArgument,
                "Tidemark-Seen is no revision.",
                fix: "Send the revision of an answer about the whole zone, or leave the header out."
            )
        }
        return revision
    }
}

extension HTTPField.Name {
    static let prefer = customName("Prefer")
    static let preferenceApplied = customName("Preference-Applied")
    static let idempotencyKey = customName("Idempotency-Key")
    static let tidemarkSeen = customName("Tidemark-Seen")
}
