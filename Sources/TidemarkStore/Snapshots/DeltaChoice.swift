package import TidemarkCore

/// Whether a file of the rows that changed is better than one of all rows: what both stores go by.
///
/// A delta is possible as long as the log reaches back, and worth its making while most rows have
/// not changed: with fewer, all rows are quicker made, sent and taken than a selection, and one
/// file serves everybody.
package enum DeltaChoice {
    /// How many of a zone's rows a changed record has to stand for.
    private static let rowsPerRecordMin: Int64 = 2

    /// Whether the log tells all that has changed since a base, and anything has.
    package static func isPossible(since base: DeltaBase, epoch: String, horizon: Int64, revision: Int64) -> Bool {
        base.epoch == epoch && base.revision >= horizon && base.revision < revision
    }

    /// Whether a zone has so many rows that a file of its changed records is worth making.
    ///
    /// `count` counts the rows of a table, no further than it is told; no more are looked at than
    /// the answer needs.
    package static func isWorthwhile(
        changed: Int64,
        in tables: [SyncedTable],
        count: (_ table: SyncedTable, _ most: Int64) throws -> Int64
    ) rethrows -> Bool {
        var left = changed * rowsPerRecordMin
        for table in tables where left > 0 { left -= try count(table, left) }
        return left <= 0
    }
}
