/// A question for the fingerprints of the rows that a filter selects, in ranges of keys.
package struct FingerprintQuery: Hashable, Sendable {
    package let table: SyncedTable
    /// The condition; nil for every row.
    package let filter: RowFilter?
    /// The ranges, in the order of keys and not overlapping; their rows and fingerprints mean nothing here.
    package let ranges: [KeyRange]
    /// The most rows if the answer has one sum a row; nil for one sum a range.
    package let rowsMax: Int?

    package init(_ table: SyncedTable, where filter: RowFilter?, in ranges: [KeyRange], rowsMax: Int? = nil) {
        self.table = table
        self.filter = filter
        self.ranges = ranges
        self.rowsMax = rowsMax
    }

    /// Adds the sums of single rows up, one sum a range.
    package func sums(ofRows rows: [RowSum]) -> [RowSum] {
        var sums: [RowSum] = []
        for row in rows {
            if let last = sums.last, last.range == row.range {
                sums[sums.count - 1].rows += row.rows
                sums[sums.count - 1].fingerprint += row.fingerprint
            } else {
                sums.append(RowSum(range: row.range, rows: row.rows, fingerprint: row.fingerprint))
            }
        }
        return sums
    }
}

/// The number and the fingerprint of rows, as a store answers a ``FingerprintQuery``.
package struct RowSum: Hashable, Sendable {
    package let range: Int
    /// The record's key in canonical JSON, if the sum is of one row.
    package let key: String?
    package var rows: Int
    package var fingerprint: Fingerprint

    package init(range: Int, key: String? = nil, rows: Int, fingerprint: Fingerprint) {
        self.range = range
        self.key = key
        self.rows = rows
        self.fingerprint = fingerprint
    }
}
