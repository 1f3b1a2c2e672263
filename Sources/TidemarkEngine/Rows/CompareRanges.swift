package import TidemarkCore

/// The ranges of keys in a request to compare rows.
extension RangeRows {
    /// Compares ranges of a device with the store's rows, which `changeSet` renders.
    package func compare(_ ranges: [KeyRange], limits: Limits, changeSet: ([RecordID]) throws -> String) throws
        -> Comparison
    {
        try refuseForeign(ranges)
        let storeRanges = try measure(ranges)
        let differing = ranges.indices.filter {
            storeRanges[$0].rows != ranges[$0].rows || storeRanges[$0].fingerprint != ranges[$0].fingerprint
        }
        let indexesToSend = differing.filter { ranges[$0].send == true }
        let count = indexesToSend.reduce(0) { $0 + storeRanges[$1].rows }
        guard count <= limits.repairRecordsMax else {
            throw TidemarkError(
                .snapshotRequired, "The rows differ in at least \(count) records.",
                fix: "Take a new snapshot; the outbox is kept.")
        }
        guard count > 0 else { return Comparison(differing: differing, changeSet: nil) }
        return Comparison(differing: differing, changeSet: try changeSet(names(in: indexesToSend.map { ranges[$0] })))
    }

    /// Refuses ranges that are out of order, or have an unknown table or an invalid key.
    private func refuseForeign(_ ranges: [KeyRange]) throws {
        if let range = KeyRange.misplaced(in: ranges) {
            throw TidemarkError(
                .malformedRequest,
                "A range of \(range.table) ends before it begins, overlaps others or is out of order.",
                fix: "Send the ranges of a table together, in the order of their keys.",
                place: .init(table: range.table))
        }
        for range in ranges {
            let table = try schema.table(range.table)
            let isFit = [range.from, range.to].compactMap { $0 }.allSatisfy {
                switch $0 {
                case .integer: table.keyKind == .integer
                case .json(let key): table.keyKind != .integer && isCanonicalKey(json: key)
                }
            }
            guard isFit else {
                throw TidemarkError(
                    .invalidKey, "from or to of a range of \(range.table) is not a key of that table.",
                    fix: #"Integer keys are numbers, others canonical JSON as a string: "\"DE\""."#,
                    place: .init(table: range.table))
            }
        }
    }
}

extension CommitTransaction {
    /// Renders the present rows of records as a change set; with `deletions`, missing records as deleted ones.
    func presentRows(_ names: [RecordID], _ envelope: [String] = [], deletions: Bool = false) throws -> String {
        let rows = try rows(names)
        let revisions = try revisions(of: names)
        var text = ChangeSetText(schema)
        for name in names {
            if let row = rows[name] {
                let places = schema.layouts[name.table].valuePlaces
                text.add(name, .update, row: row, columns: places, revision: revisions[name] ?? 0)
            } else if deletions {
                text.add(name, .delete)
            }
        }
        return text.text(envelope)
    }
}
