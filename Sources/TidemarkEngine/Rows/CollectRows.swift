package import TidemarkCore

/// Collects the rows of a page within its bounds, whatever the store.
package struct CollectRows {
    private let query: RowQuery
    /// Where a row's cells have the values of its place.
    private let places: [Int]
    private var bytes = 0
    /// The page so far.
    package private(set) var page = RowPage(rows: [], hasMore: false)

    /// Creates an empty page.
    package init(_ query: RowQuery) {
        self.query = query
        let further = query.furtherColumns
        places = query.placeColumns.map { column in
            further.firstIndex(of: column).map { query.columns.count + $0 } ?? query.columns.firstIndex(of: column) ?? 0
        }
    }

    /// Notes that the store has left out rows beyond the page's bytes.
    package mutating func endEarly() { page.hasMore = true }

    /// Adds a row with the values that ``RowSQL`` selects.
    ///
    /// - Returns: Whether the page has room for another one.
    package mutating func take(key: String, revision: Int64, cells: [String]) -> Bool {
        let row = RowText(
            key: key,
            cells: cells.count == query.columns.count ? cells : Array(cells.prefix(query.columns.count)),
            revision: revision,
            position: RowQuery.Position(
                values: places.prefix(query.order.count).map { cells[$0] },
                key: places.dropFirst(query.order.count).map { cells[$0] }
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
