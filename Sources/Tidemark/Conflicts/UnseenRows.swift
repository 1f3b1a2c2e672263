import GRDB
import TidemarkCore
import TidemarkSQL

/// Decides whether a parked change set, made again without a person's decision, would overwrite unseen changes.
///
/// A change set that is made again is based on the rows of now. The server cannot know that its author had seen
/// older ones. So the device compares the confirmed rows with those that the author had seen, and judges each
/// difference by the server's rules.
struct UnseenRows {
    let db: Database
    let schema: SyncSchema

    /// Whether a change of a conflict meets a confirmed row that differs from its base, and no policy lets both stand.
    ///
    /// New records do not count, because the device gives them ids that are free.
    func wouldBeOverwritten(by conflict: String) throws -> Bool {
        if planted(PlantedBug.remakesOverUnseenRows) { return false }
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT tbl, key, operation, base, coalesce(mine, '{}') AS mine
                    FROM tidemark_conflict_record
                    WHERE id = ? AND operation IN ('update', 'delete')
                    """
            ),
            arguments: [conflict]
        )
        return try rows.contains { row in
            guard let table = try schema.byName[row.value("tbl")] else { return true }
            return try isOverwritten(by: row, in: table)
        }
    }

    private func isOverwritten(by row: Row, in table: SyncedTable) throws -> Bool {
        let key: String = try row.value("key")
        let mine: String = try row.value("mine")
        let base: String? = try row.value("base")
        let isDeletion = try row.value("operation") as String == TidemarkCore.Operation.delete.rawValue
        let confirmed = try confirmedImage(of: key, in: table)
        guard confirmed != base else { return false }
        guard let confirmed else { return !isDeletion }
        guard let base else { return true }
        let contention = try Contention(
            table: table.name,
            key: key,
            operation: isDeletion ? .delete : .update,
            differingColumns: columns(of: mine, differingFrom: confirmed),
            isSum: isSum(mine),
            unseen: [UnseenChange(operation: .update, columns: columns(of: base, differingFrom: confirmed))],
            exists: true
        )
        guard !contention.unseen[0].columns.isEmpty else { return false }
        let judgement = judge(
            contention,
            policy: schema.policy(of: table.name),
            columns: schema.columnPolicies(of: table.name)
        )
        // A value that the server overrules is kept there; the new change set would hide that it did.
        return judgement != .merge
    }

    /// Returns the server's record, without pending changes; nil if there is none.
    private func confirmedImage(of key: String, in table: SyncedTable) throws -> String? {
        try String.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT iif(pending.tbl IS NULL, (\(Images.current(table, key: "?2"))), pending.image)
                    FROM (SELECT 1)
                    LEFT JOIN tidemark_base AS pending ON pending.tbl = ?1 AND pending.key = ?2
                    """
            ),
            arguments: [table.name, key]
        )
    }

    /// Returns the columns of an image or a change whose values an image does not have.
    ///
    /// A delta has no value, and a column that the image lacks cannot be compared.
    private func columns(of changes: String, differingFrom image: String) throws -> Set<String> {
        try String.fetchSet(
            db.cachedStatement(
                sql: """
                    SELECT \(MemberSQL.name(of: "member.key"))
                    FROM json_each(?1) AS member
                    WHERE json_type(?2, member.fullkey) IS NOT NULL AND NOT (\(Delta.isDelta("member")))
                        AND (?1 -> member.fullkey) IS NOT (?2 -> member.fullkey)
                    """
            ),
            arguments: [changes, image]
        )
    }

    /// Whether a change only adds to columns.
    private func isSum(_ changes: String) throws -> Bool {
        try Bool.fetchOne(
            db.cachedStatement(sql: "SELECT \(Delta.hasOnly("?1"))"),
            arguments: [changes]
        ) ?? false
    }
}
