/// A version of a record, or of a whole zone: `355-1b60e08c`, the revision and the start of the epoch.
///
/// The epoch belongs to it, because a restored server counts the same revisions again.
package struct RecordTag: Hashable, Sendable {
    /// The revision.
    package let revision: Int64
    /// The first eight characters of the epoch.
    package let history: String

    /// Creates the tag of a revision.
    package init(revision: Int64, epoch: String) {
        self.revision = revision
        history = Self.history(of: epoch)
    }

    /// Reads a strong entity tag with its quotes; nil for another text.
    package init?(entityTag: some StringProtocol) {
        guard entityTag.hasPrefix("\""), entityTag.hasSuffix("\""), entityTag.count > 2 else { return nil }
        let parts = entityTag.dropFirst().dropLast().split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2, let revision = Int64(parts[0]), revision >= 0, parts[1].count == 8 else { return nil }
        self.revision = revision
        history = String(parts[1])
    }

    /// Whether the tag belongs to a history.
    package func isOf(_ epoch: String) -> Bool { history == Self.history(of: epoch) }

    /// The tag as a strong entity tag.
    package var entityTag: String { "\"\(revision)-\(history)\"" }

    private static func history(of epoch: String) -> String { String(epoch.prefix(8)) }
}
