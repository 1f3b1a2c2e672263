import Foundation
import TidemarkCore

/// The place in the log up to which a client has read a feed: `1055-1b60e08c9f3a21bc`, the state of the last revision.
///
/// Within a revision, the last table and key follow in base64url.
package struct FeedCursor: Hashable, Sendable {
    /// The place.
    package let position: LogPosition
    package let tag: StateTag

    /// Creates the cursor of a place by the state of its revision.
    package init(position: LogPosition, tag: StateTag) {
        self.position = position
        self.tag = tag
    }

    /// Reads a cursor; nil for another text.
    package init?(_ text: String) {
        let parts = text.split(separator: "-", maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count >= 2, let tag = StateTag("\(parts[0])-\(parts[1])") else { return nil }
        self.tag = tag
        guard parts.count == 3 else {
            position = LogPosition(revision: tag.revision)
            return
        }
        guard let bytes = Base64URL.bytes(parts[2]), let place = Self.decode(bytes) else { return nil }
        position = LogPosition(revision: tag.revision, table: place[0], key: place[1])
    }

    package var text: String {
        guard position != LogPosition(revision: position.revision) else { return tag.text }
        let place = JSONText.array([JSONText.quote(position.table), JSONText.quote(position.key)])
        return "\(tag.text)-\(Base64URL.text(Array(place.utf8)))"
    }

    private static func decode(_ bytes: [UInt8]) -> [String]? {
        do {
            let place = try JSONDecoder().decode([String].self, from: Data(bytes))
            return place.count == 2 ? place : nil
        } catch { return nil }
    }
}
