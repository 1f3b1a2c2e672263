import GRDB
package import TidemarkCore
package import TidemarkServer
import TidemarkSQLite

extension ZoneTransaction {
    package func recomputeFingerprint() throws {
        // What the log says and what the tables hold can only differ when somebody wrote behind the
        // triggers' back. The tables are what devices get, so they count.
        let computed = try RowFingerprints(db, schema: schema).all()
        try keepFingerprint(computed, at: zone().revision)
    }

    package func compare(_ ranges: [KeyRange], limits: Limits) throws -> Comparison {
        try refuseForeign(ranges)
        let mine = try RangeFingerprints(db, schema: schema).measured(ranges)
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
            changeSet: try changeSet(of: sent.map { ranges[$0] })
        )
    }

    /// The rows in the ranges, whole, each with the revision that last changed it.
    private func changeSet(of ranges: [KeyRange]) throws -> String {
        try CommitTables.clear("truth", in: db)
        try RangeFingerprints(db, schema: schema).load(ranges)
        let names = Set(ranges.map(\.table))
        let tables = schema.tables.filter { names.contains($0.name) }
        for table in tables {
            try db.execute(
                sql: """
                    INSERT OR IGNORE INTO temp.tidemark_truth
                    SELECT \(SQLText.literal(table.name)), key, 0 FROM (\(RangeFingerprints.rows(of: table)))
                    """
            )
        }
        return try ChangeSetJSON.render(
            envelope: [],
            tables.map { ChangeSetJSON.Source(truth: $0) },
            in: db
        )
    }

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
