import GRDB
package import TidemarkCore
package import TidemarkServer
import TidemarkSQLite

/// The records of which the truth is told: those of a refused change set, those in its way, and
/// those that a store finds to be related.
extension StagedRequest {
    /// Begins the truth with what a refused change set names, and what stands in its way.
    ///
    /// `holders` are the keys of the records that hold unique values which its records wanted.
    ///
    /// - Returns: The reasons, of which those about unique values name the holders.
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
                SELECT tbl, key, operation = 'delete' FROM temp.tidemark_staged WHERE ord = ?
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

    /// Adds records; with `follows`, what refers to them belongs to the truth as well, also where
    /// they are in it for another reason already.
    ///
    /// - Returns: How many were not there yet, or were not followed.
    @discardableResult package func addToTruth(_ table: String, _ keys: [String], follows: Bool) throws -> Int {
        let list = "[" + keys.map(ChangeSetJSON.quote).joined(separator: ",") + "]"
        try db.cachedStatement(
            sql: """
                INSERT INTO temp.tidemark_truth (tbl, key, follows)
                SELECT ?, value, ? FROM json_each(?) WHERE true
                \(Self.followingToo)
                """
        ).execute(arguments: [table, follows, list])
        return db.changesCount
    }

    /// The end of an `INSERT` into the truth: a record that is there already is followed from now
    /// on, and counts as a change, if the new row says so.
    package static let followingToo =
        "ON CONFLICT (tbl, key) DO UPDATE SET follows = 1 WHERE excluded.follows > follows"
}
