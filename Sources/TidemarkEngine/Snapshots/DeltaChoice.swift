package import TidemarkCore

/// The choice between a delta and a full snapshot, for both stores.
///
/// A delta is possible if the log reaches back to its base, and worthwhile if most rows have not changed. Otherwise a
/// full snapshot is faster to build, send and apply, and one file serves all devices.
package enum DeltaChoice {
    /// The least number of rows in the zone for each changed record.
    private static let rowsPerRecordMin: Int64 = 2

    /// Whether the log has all changes since a base, and there are any.
    package static func isPossible(since base: DeltaBase, epoch: String, horizon: Int64, revision: Int64) -> Bool {
        base.epoch == epoch && base.revision >= horizon && base.revision < revision
    }

    /// Whether a delta of `changed` records is worthwhile; `count` counts a table's rows up to `most`, to read no more.
    package static func isWorthwhile(
        changed: Int64, in tables: [SyncedTable], count: (_ table: SyncedTable, _ most: Int64) throws -> Int64
    ) rethrows -> Bool {
        var missingRows = changed * rowsPerRecordMin
        for table in tables where missingRows > 0 { missingRows -= try count(table, missingRows) }
        return missingRows <= 0
    }
}
