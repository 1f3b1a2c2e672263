import Crypto
import Foundation
package import TidemarkCore

/// The place where the next page of a list begins, as a text that a client hands back.
///
/// It holds no secret: the place in the order, the first page's revision, the epoch, and a hash of the
/// question. With another question, another schema or another history it is refused.
package struct RecordCursor: Hashable, Sendable {
    /// The place.
    package let position: RowQuery.Position
    /// The revision of the first page.
    package let since: Int64

    /// Creates a cursor.
    package init(position: RowQuery.Position, since: Int64) {
        self.position = position
        self.since = since
    }

    private struct Content: Codable {
        let v: [String]
        let k: [String]
        let s: Int64
        let e: String
        let q: String
    }

    /// Reads a cursor of a question with so many columns in its order and in its table's key.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/invalidCursor``.
    package init(
        _ text: String,
        question: String,
        orderCount: Int,
        keyCount: Int,
        zone: ZoneState
    ) throws(TidemarkError) {
        guard let content = Self.decode(text), content.q == Self.hash(question, zone), content.e == zone.epoch,
            content.v.count == orderCount, content.k.count == keyCount
        else {
            throw TidemarkError(
                .invalidCursor,
                "The cursor is damaged, or belongs to another query, or the tables have changed since.",
                fix: "Begin again without `after`."
            )
        }
        position = RowQuery.Position(values: content.v, key: content.k)
        since = content.s
    }

    /// Returns the cursor as a text of a query.
    package func text(question: String, zone: ZoneState) throws -> String {
        let content = Content(
            v: position.values,
            k: position.key,
            s: since,
            e: zone.epoch,
            q: Self.hash(question, zone)
        )
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return Base64URL.text(try encoder.encode(content))
    }

    private static func decode(_ text: String) -> Content? {
        guard let data = Base64URL.bytes(text).map({ Data($0) }) else { return nil }
        // Any text may come here, and only a cursor of this server is one.
        return try? JSONDecoder().decode(Content.self, from: data)
    }

    static func hash(_ question: String, _ zone: ZoneState) -> String {
        let digest = SHA256.hash(data: Data("\(zone.schema)\n\(question)".utf8))
        return Base64URL.text(digest.prefix(12))
    }
}
