package import TidemarkCore
package import TidemarkServer

/// The ranges of keys in a request to compare rows.
extension StagedRequest {
    /// Compares ranges: `measured` gives them with what the store has in them, `changeSet` its
    /// rows.
    package func compare(
        _ ranges: [KeyRange],
        limits: Limits,
        measured: ([KeyRange]) throws -> [KeyRange],
        changeSet: ([KeyRange]) throws -> String
    ) throws -> Comparison {
        try refuseForeign(ranges)
        let mine = try measured(ranges)
        let differing = ranges.indices.filter {
            mine[$0].rows != ranges[$0].rows || mine[$0].fingerprint != ranges[$0].fingerprint
        }
        let sent = differing.filter { ranges[$0].send == true }
        let count = sent.reduce(0) { $0 + mine[$1].rows }
        guard count <= limits.repairRecordsMax else {
            throw TidemarkError(
                .snapshotRequired,
                "The rows differ in at least \(count) records.",
                fix: "Take a new snapshot; the outbox is kept."
            )
        }
        guard count > 0 else { return Comparison(differing: differing, changeSet: nil) }
        return Comparison(
            differing: differing,
            changeSet: try changeSet(sent.map { ranges[$0] })
        )
    }

    /// Refuses ranges that overlap, or are of tables or keys that the zone does not have.
    private func refuseForeign(_ ranges: [KeyRange]) throws {
        for (range, next) in zip(ranges, ranges.dropFirst()) where range.table == next.table {
            guard let end = range.to, let start = next.from, end <= start else {
                throw TidemarkError(
                    .malformedRequest,
                    "Two ranges of \(range.table) overlap or are out of order.",
                    fix: "Send the ranges of a table together, in the order of their keys.",
                    place: .init(table: range.table)
                )
            }
        }
        for range in ranges {
            guard let table = schema.byName[range.table] else {
                throw TidemarkError(
                    .unknownTable,
                    "This zone does not sync a table \(range.table).",
                    fix: "Spell tables as in CREATE TABLE.",
                    place: .init(table: range.table)
                )
            }
            let isFit = [range.from, range.to].compactMap { $0 }.allSatisfy {
                if case .integer = $0 {
                    table.keyKind == .integer
                } else {
                    table.keyKind != .integer
                }
            }
            guard isFit else {
                throw TidemarkError(
                    .invalidKey,
                    "A range of \(range.table) begins or ends at a key of another kind.",
                    fix: "Integer keys are numbers, all others their canonical JSON as a string.",
                    place: .init(table: range.table)
                )
            }
        }
    }
}
