internal import HTTPTypes
internal import TidemarkCore

/// The header `Prefer` of a write (RFC 7240).
struct Preferences: Hashable, Sendable {
    /// Whether the client wants no record in the answer.
    private(set) var isMinimal = false
    /// The preferences that the server follows, as in `Preference-Applied`; nil if there are none.
    private(set) var applied: String?

    /// Reads the header.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/invalidArgument`` for an unknown preference, unless the client sends
    ///   `handling=lenient`.
    init(_ header: String?) throws(TidemarkError) {
        let parts = (header ?? "").split(separator: ",").map { part in
            String(part.prefix { $0 != ";" }.filter { $0 != " " && $0 != "\"" }).lowercased()
        }
        let known = parts.filter(Self.known.contains)
        guard known.count == parts.count || parts.contains("handling=lenient") else {
            throw TidemarkError(
                .invalidArgument,
                "Prefer has a preference that this server does not know.",
                fix: "It knows return=minimal, return=representation, handling=strict and handling=lenient."
            )
        }
        // The first one counts, as RFC 7240 says.
        isMinimal = known.first { $0.hasPrefix("return=") } == "return=minimal"
        applied = known.isEmpty ? nil : known.joined(separator: ", ")
    }

    private static let known: Set<String> = [
        "return=minimal", "return=representation", "handling=strict", "handling=lenient",
    ]
}
