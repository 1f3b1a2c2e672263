package import TidemarkCore

/// The ranges of keys in a request to compare rows.
extension StagedRequest {
    /// Refuses ranges that overlap, or are of tables or keys that the zone does not have.
    package func refuseForeign(_ ranges: [KeyRange]) throws {
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
