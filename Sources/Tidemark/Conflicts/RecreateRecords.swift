import GRDB
import TidemarkCore
import TidemarkSQL

/// Gives new ids to records that a retry or merge creates under an id that is not theirs.
///
/// The server uses an id only once, so the old id stays with a deleted record. An uncaptured creation
/// may have an id that the server gives, or has given, to another record. Parked changes that
/// refer to the record get the new id, in the same conflict and in dependent ones.
struct RecreateRecords {
    let db: Database
    let schema: SyncSchema

    /// Gives new ids to the missing records of a conflict that must exist again, and to
    /// uncaptured creations.
    ///
    /// - Returns: The merged records, under their new keys.
    func assignIDs(_ id: String, _ merged: [MergedRecord]) throws -> [MergedRecord] {
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT parked.tbl, parked.key, parked.operation = 'create' AS isNew
                FROM tidemark_conflict_record AS parked
                JOIN temp.tidemark_table AS synced_table
                    ON synced_table.tbl = parked.tbl AND synced_table.kind = 'integer'
                WHERE parked.id = ? AND (
                    parked.operation IN ('update', 'delete')
                    OR parked.operation = 'create' AND parked.id IN (\(Conflict.Reason.uncapturedIDs)))
                ORDER BY parked.tbl, parked.key
                """,
            arguments: [id]
        )
        var records: [(table: String, id: Int64)] = []
        for row in rows {
            let name: String = try row.value("tbl")
            let key: String = try row.value("key")
            let isNew: Bool = try row.value("isNew")
            guard let table = schema.byName[name], let old = Int64(key),
                try isNew ? !TemporaryID.isTemporary(old) : RowValues(db: db).current(table, key: key) == nil,
                try isWanted(id, table: name, key: key, merged: merged)
            else { continue }
            records.append((name, old))
        }
        let renumbering = RenumberRecords(db: db, schema: schema)
        guard try renumbering.assign(records) else { return merged }
        try renumbering.renameParked()
        let new = try Row.fetchAll(db, sql: "SELECT tbl, temporary, permanent FROM temp.tidemark_assigned").map {
            (try "\($0.value("tbl") as String) \($0.value("temporary") as Int64)", try $0.value("permanent") as Int64)
        }
        let keys = Dictionary(uniqueKeysWithValues: new).mapValues(String.init)
        return merged.map {
            let key = keys["\($0.table) \($0.key)"] ?? $0.key
            return MergedRecord(table: $0.table, key: key, columns: $0.columns)
        }
    }

    /// Whether the resolution creates the missing record again.
    private func isWanted(_ id: String, table: String, key: String, merged: [MergedRecord]) throws -> Bool {
        if let decision = merged.first(where: { $0.table == table && $0.key == key }) { return decision.columns != nil }
        return try Bool.fetchOne(
            db,
            sql: """
                SELECT operation = 'create' OR operation = 'update' AND base IS NOT NULL FROM tidemark_conflict_record
                WHERE id = ? AND tbl = ? AND key = ?
                """,
            arguments: [id, table, key]
        ) ?? false
    }
}
