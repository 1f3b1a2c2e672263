import Foundation
import TidemarkCore

/// The place in the log up to which a client has read a feed: `1055-1b60e08c`.
///
/// Within a revision, the last table and key follow in base64url. The epoch belongs to it, because a restored
/// server counts the same revisions again.
package struct FeedCursor: Hashable, Sendable {
    /// The place.
    package let position: LogPosition
    /// The first characters of the epoch.
    package let tag: RecordTag

    /// Creates the cursor of a place.
    package init(position: LogPosition, epoch: String) {
        self.position = position
        tag = RecordTag(revision: position.revision, epoch: epoch)
    }

    /// Reads a cursor; nil for another text.
    package init?(_ text: String) {
        let parts = text.split(separator: "-", maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count >= 2, let tag = RecordTag(entityTag: "\"\(parts[0])-\(parts[1])\"") else { return nil }
        self.tag = tag
        guard parts.count == 3 else {
            position = LogPosition(revision: tag.revision)
            return
        }
        guard let bytes = Base64URL.bytes(parts[2]), let place = Self.decode(bytes) else { return nil }
        position = LogPosition(revision: tag.revision, table: place[0], key: place[1])
    }

    /// The cursor as a text of a query.
    package var text: String {
        let start = tag.entityTag.dropFirst().dropLast()
        guard position != LogPosition(revision: position.revision) else { return String(start) }
        let place = JSONText.array([JSONText.quote(position.table), JSONText.quote(position.key)])
        return "\(start)-\(Base64URL.text(Array(place.utf8)))"
    }

    private static func decode(_ bytes: [UInt8]) -> [String]? {
        do {
            let place = try JSONDecoder().decode([String].self, from: Data(bytes))
            return place.count == 2 ? place : nil
        } catch { return nil }
    }
}
