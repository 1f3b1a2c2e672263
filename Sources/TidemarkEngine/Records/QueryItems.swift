import Foundation
package import TidemarkCore

/// The query of an address.
package enum QueryItems {
    /// Returns the names and values of a query, in their order, decoded as forms are: `+` is a space.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/invalidFilter`` for a part that is no `name=value`.
    package static func read(_ query: String) throws(TidemarkError) -> [ListQuery.Item] {
        var items: [ListQuery.Item] = []
        for part in query.split(separator: "&") {
            let sides = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard sides.count == 2, let name = text(sides[0]), let value = text(sides[1]) else {
                throw TidemarkError(
                    .invalidFilter, "The query is not a list of name=value in percent-encoded UTF-8.",
                    fix: "Write name=value&name=value, and percent-encode &, = and + in values.")
            }
            items.append(ListQuery.Item(name: name, value: value))
        }
        return items
    }

    /// Decodes a name or a value; nil for one that is no UTF-8 or has NUL.
    package static func text(_ part: some StringProtocol) -> String? {
        guard let text = String(part).replacing("+", with: " ").removingPercentEncoding, !text.utf8.contains(0) else {
            return nil
        }
        return text
    }
}
