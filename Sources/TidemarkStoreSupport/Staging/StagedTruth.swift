import GRDB
package import TidemarkCore
package import TidemarkEngine
import TidemarkSQL

/// The current records that the author of a refused change set receives.
///
/// They are the change set's records, the conflicting ones, and related ones that the store finds.
extension StagedRequest {
    /// Begins the truth with the records of a refused change set and the conflicting records.
    ///
    /// `holders` returns the keys of records that have the unique values of the change set.
    ///
    /// - Returns: The reasons; a reason about a unique value names the holder.
    package func beginTruth(
        _ ord: Int,
        _ reasons: [ConflictReason],
        holders: (_ table: SyncedTable, _ columns: [String]) throws -> [String]
    ) throws -> [ConflictReason] {
        try CommitTables.clear("truth", in: db)
        try nameKnownIdentities(ord)
        try db.cachedStatement(
            sql: """
                INSERT INTO temp.tidemark_truth (tbl, key, follows)
                SELECT tbl, key, operation = 'delete'
                FROM temp.tidemark_staged
                WHERE ord = ?
                """
        ).execute(arguments: [ord])
        for reason in reasons where !reason.key.isEmpty { try addToTruth(reason.table, [reason.key], follows: false) }
        return try reasons.flatMap { reason in
            guard reason.rule == ConflictRule.unique.rawValue, reason.key.isEmpty,
                let table = schema.byName[reason.table], !reason.columns.isEmpty
            else { return [reason] }
            let keys = try holders(table, reason.columns)
            try addToTruth(table.name, keys, follows: false)
            guard !keys.isEmpty else { return [reason] }
            return keys.map { ConflictReason(table: table.name, key: $0, columns: reason.columns, rule: .unique) }
        }
    }

    /// Adds records; with `follows`, the records that refer to them belong to the truth, too.
    ///
    /// - Returns: The number of records that are new or newly followed.
    @discardableResult package func addToTruth(_ table: String, _ keys: [String], follows: Bool) throws -> Int {
        let list = "[" + keys.map(ChangeSetJSON.quote).joined(separator: ",") + "]"
        try db.cachedStatement(
            sql: """
                INSERT INTO temp.tidemark_truth (tbl, key, follows)
                SELECT ?, value, ?
                FROM json_each(?)
                WHERE true
                \(Self.followingToo)
                """
        ).execute(arguments: [table, follows, list])
        return db.changesCount
    }

    /// The end of an `INSERT` into the truth.
    ///
    /// An existing record is followed from now on, and counts as a change, if the new row follows.
    package static let followingToo =
        "ON CONFLICT (tbl, key) DO UPDATE SET follows = 1 WHERE excluded.follows > follows"
}
