/// A question for rows of one table: which, in which order, from where on, and how many.
///
/// A value of the server. Its names come from the schema, and its values are canonical JSON, so that a
/// store puts neither into SQL as text.
package struct RowQuery: Hashable, Sendable {
    /// One column of an order.
    package struct Order: Hashable, Sendable {
        /// The column.
        package let column: SyncedTable.Column
        /// Whether large values come first.
        package let isDescending: Bool

        /// Creates a part of an order.
        package init(_ column: SyncedTable.Column, isDescending: Bool = false) {
            self.column = column
            self.isDescending = isDescending
        }
    }

    /// The place of a row in an order, as canonical JSON.
    package struct Position: Hashable, Sendable, Codable {
        /// The values of the order's columns.
        package let values: [String]
        /// The values of the key's columns.
        package let key: [String]

        /// Creates a position.
        package init(values: [String], key: [String]) {
            self.values = values
            self.key = key
        }
    }

    /// The table.
    package let table: SyncedTable
    /// The columns of the answer, in their order.
    package var columns: [SyncedTable.Column]
    /// The condition; nil for every row.
    package var filter: RowFilter?
    /// The keys in canonical JSON, if the question is about certain records; then there is no order.
    package var keys: [String]?
    /// The order, which the key completes, in the direction of the last column.
    package var order: [Order] = []
    /// The row after which the answer begins.
    package var after: Position?
    /// The most rows.
    package var limit: Int
    /// The most bytes of the rows; the answer has at least one row.
    package var bytesMax: Int
    /// The most characters of a value, because longer ones are cut; nil for whole values.
    package var charactersMax: Int?

    /// Creates a question for the first rows of a table.
    package init(_ table: SyncedTable, limit: Int, bytesMax: Int) {
        self.table = table
        columns = table.columns
        self.limit = limit
        self.bytesMax = bytesMax
    }

    /// Whether the key's direction is descending.
    package var isKeyDescending: Bool { order.last?.isDescending ?? false }

    /// Whether many requests ask this with other values, so that a store keeps the statement.
    ///
    /// Selected columns, filters and long orders make too many different statements to keep.
    package var isCommon: Bool {
        filter == nil && charactersMax == nil && order.count <= 1 && table.columns.count <= 100
            && (columns.isEmpty || columns == table.columns)
    }

    /// The columns that give a row's place in the order: those of the order, and the key's.
    package var placeColumns: [SyncedTable.Column] {
        order.map(\.column) + table.key.compactMap { name in table.columns.first { $0.name == name } }
    }

    /// The columns that a store selects after ``columns``: those of the place whose whole values are not there yet.
    package var furtherColumns: [SyncedTable.Column] {
        guard charactersMax == nil else { return placeColumns }
        return placeColumns.filter { !columns.contains($0) }
    }

    /// The columns of the index with which the question is cheap.
    package var indexColumns: [SyncedTable.Column] {
        let key = table.key.compactMap { name in table.columns.first { $0.name == name } }
        var columns: [SyncedTable.Column] = []
        for column in (filter?.equalColumns ?? []) + order.map(\.column) + key where !columns.contains(column) {
            columns.append(column)
        }
        return columns
    }
}

/// Rows of one table, as a store answers a ``RowQuery``.
package struct RowPage: Hashable, Sendable {
    /// The rows, in the order of the question.
    package var rows: [RowText]
    /// Whether more rows follow.
    package var hasMore: Bool

    /// Creates a page.
    package init(rows: [RowText], hasMore: Bool) {
        self.rows = rows
        self.hasMore = hasMore
    }
}

/// A row, each value in canonical JSON.
package struct RowText: Hashable, Sendable {
    /// The record's key in canonical JSON, as the log has it.
    package let key: String
    /// The values of the question's columns, in their order.
    package let cells: [String]
    /// The revision that last changed the record.
    package let revision: Int64
    /// The row's place in the question's order.
    package let position: RowQuery.Position

    /// Creates a row.
    package init(key: String, cells: [String], revision: Int64, position: RowQuery.Position) {
        self.key = key
        self.cells = cells
        self.revision = revision
        self.position = position
    }

    /// The bytes of the row's values.
    package var byteCount: Int { cells.reduce(key.utf8.count) { $0 + $1.utf8.count } }
}
