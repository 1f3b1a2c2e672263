package import TidemarkCore
package import TidemarkServer
import TidemarkSQLite

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
        return Comparison(differing: differing, changeSet: try changeSet(sent.map { ranges[$0] }))
    }

    /// Refuses ranges that are out of order, or of tables or keys that the zone does not have.
    private func refuseForeign(_ ranges: [KeyRange]) throws {
        try refuseDisorder(ranges)
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
                switch $0 {
                case .integer: table.keyKind == .integer
                case .json(let key): table.keyKind != .integer && isCanonicalKey(json: key)
                }
            }
            guard isFit else {
                throw TidemarkError(
                    .invalidKey,
                    "from or to of a range of \(range.table) is not a key of that table.",
                    fix: #"Integer keys are numbers, others canonical JSON as a string: "\"DE\""."#,
                    place: .init(table: range.table)
                )
            }
        }
    }

    /// Refuses ranges that overlap, or of which others stand in between: however many there are, no
    /// row is read twice.
    private func refuseDisorder(_ ranges: [KeyRange]) throws {
        let fix = "Send the ranges of a table together, in the order of their keys."
        for range in ranges {
            guard let start = range.from, let end = range.to, end < start else { continue }
            throw TidemarkError(
                .malformedRequest,
                "A range of \(range.table) ends before it begins: to is less than from.",
                fix: fix,
                place: .init(table: range.table)
            )
        }
        var done: Set<String> = []
        for (range, next) in zip(ranges, ranges.dropFirst()) {
            if range.table == next.table {
                if let end = range.to, let start = next.from, end <= start { continue }
            } else {
                done.insert(range.table)
                if !done.contains(next.table) { continue }
            }
            throw TidemarkError(
                .malformedRequest,
                "Two ranges of \(next.table) overlap or are out of order.",
                fix: fix,
                place: .init(table: next.table)
            )
        }
    }
}
