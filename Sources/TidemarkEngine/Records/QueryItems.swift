import Foundation
package import TidemarkCore

/// The query of an address.
package enum QueryItems {
    /// Returns the names and values of a query, in their order, without percent-encoding.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/invalidFilter`` for a part that is no `name=value`.
    package static func read(_ query: String) throws(TidemarkError) -> [ListQuery.Item] {
        var items: [ListQuery.Item] = []
        for part in query.split(separator: "&") {
            let sides = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard sides.count == 2, let name = String(sides[0]).removingPercentEncoding,
                let value = String(sides[1]).removingPercentEncoding, !name.utf8.contains(0), !value.utf8.contains(0)
            else {
                throw TidemarkError(
                    .invalidFilter,
                    "The query is not a list of name=value in percent-encoded UTF-8.",
                    fix: "Write name=value&name=value, and percent-encode & and = in values."
                )
            }
            items.append(ListQuery.Item(name: name, value: value))
        }
        return items
    }
}
