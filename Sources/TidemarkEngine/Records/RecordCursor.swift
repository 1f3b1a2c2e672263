import Crypto
import Foundation
package import TidemarkCore

/// The place where the next page of a list begins, as a text that a client hands back.
///
/// It holds no secret: the place in the order, the state of the first page, and a hash of the
/// question. With another question, another schema or another history it is refused.
package struct RecordCursor: Hashable, Sendable {
    /// The place.
    package let position: RowQuery.Position
    /// The state of the first page.
    package let since: StateTag

    /// Creates a cursor.
    package init(position: RowQuery.Position, since: StateTag) {
        self.position = position
        self.since = since
    }

    private struct Content: Codable {
        let v: [String]
        let k: [String]
        let s: String
        let q: String
    }

    /// Reads a cursor of a question with so many columns in its order and in its table's key.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/invalidCursor``.
    package init(_ text: String, question: String, orderCount: Int, keyCount: Int, reader: any ZoneReader) throws {
        guard let content = Self.decode(text), content.q == Self.hash(question, reader.state),
            let since = StateTag(content.s), try reader.has(since),
            content.v.count == orderCount, content.k.count == keyCount
        else {
            throw TidemarkError(
                .invalidCursor, "The cursor is damaged, or belongs to another query, or the tables have changed since.",
                fix: "Begin again without `after`.")
        }
        position = RowQuery.Position(values: content.v, key: content.k)
        self.since = since
    }

    package func text(question: String, zone: ZoneState) throws -> String {
        let content = Content(v: position.values, k: position.key, s: since.text, q: Self.hash(question, zone))
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
