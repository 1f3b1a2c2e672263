package import TidemarkCore

/// Collects the rows of a page within its bounds, whatever the store.
package struct CollectRows {
    private let query: RowQuery
    private var bytes = 0
    /// The page so far.
    package private(set) var page = RowPage(rows: [], hasMore: false)

    /// Creates an empty page.
    package init(_ query: RowQuery) { self.query = query }

    /// Notes that the store has left out rows beyond the page's bytes.
    package mutating func endEarly() { page.hasMore = true }

    /// Adds a row with the values that ``RowSQL`` selects.
    ///
    /// - Returns: Whether the page has room for another one.
    package mutating func take(key: String, revision: Int64, cells: [String]) -> Bool {
        let columns = query.columns.count
        let place = cells[columns...]
        let row = RowText(
            key: key,
            cells: Array(cells.prefix(columns)),
            revision: revision,
            position: RowQuery.Position(
                values: Array(place.prefix(query.order.count)),
                key: Array(place.dropFirst(query.order.count))
            )
        )
        bytes += row.byteCount
        let isFull = query.keys == nil && page.rows.count == query.limit
        guard !isFull, bytes <= query.bytesMax || page.rows.isEmpty else {
            page.hasMore = true
            return false
        }
        page.rows.append(row)
        return true
    }
}
