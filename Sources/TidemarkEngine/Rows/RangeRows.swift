package import TidemarkCore

/// A store's rows in a device's ranges of keys, by the question that a client's comparison asks, too.
package struct RangeRows {
    let schema: SyncSchema
    private let sums: (FingerprintQuery) throws -> [RowSum]

    init(of transaction: some CommitTransaction) {
        schema = transaction.schema
        sums = transaction.fingerprints
    }

    /// Counts and fingerprints the rows in each range; those of a table are in the order of keys, without overlaps.
    package func measure(_ ranges: [KeyRange]) throws -> [KeyRange] {
        var measured = ranges.map { KeyRange(table: $0.table, from: $0.from, to: $0.to) }
        for (table, indexes) in indexes(of: ranges) {
            for sum in try sums(FingerprintQuery(table, where: nil, in: indexes.map { ranges[$0] })) {
                measured[indexes[sum.range]].rows = sum.rows
                measured[indexes[sum.range]].fingerprint = sum.fingerprint
            }
        }
        return measured
    }

    package func names(in ranges: [KeyRange]) throws -> [RecordID] {
        var names: [RecordID] = []
        var known: Set<RecordID> = []
        for (place, table) in schema.tables.enumerated() {
            let own = ranges.filter { $0.table == table.name }
            guard !own.isEmpty else { continue }
            for key in try sums(FingerprintQuery(table, where: nil, in: own, rowsMax: .max)).compactMap(\.key) {
                let name = RecordID(table: place, key: key)
                if known.insert(name).inserted { names.append(name) }
            }
        }
        return names
    }

    private func indexes(of ranges: [KeyRange]) -> [(SyncedTable, [Int])] {
        schema.tables.compactMap { table in
            let own = ranges.indices.filter { ranges[$0].table == table.name }
            return own.isEmpty ? nil : (table, own)
        }
    }
}

extension Optional where Wrapped == KeyRange.Bound {
    /// The bound as JSON, for the statements of both stores.
    package var json: String {
        switch self {
        case .integer(let key)?: String(key)
        case .json(let key)?: JSONText.quote(key)
        case nil: "null"
        }
    }
}

extension RowQuery {
    /// Makes a question for rows that a filter selects, without a bound of bytes.
    package init(_ table: SyncedTable, where filter: RowFilter?, limit: Int) {
        self.init(table, limit: limit, bytesMax: 0)
        self.filter = filter
    }
}
