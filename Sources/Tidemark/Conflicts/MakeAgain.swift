import GRDB
import TidemarkCore
import TidemarkSQLite

/// Records that are gone and come back get new ids where the server gives them: an id is never used
/// twice, so the old one stays that of the deleted record.
///
/// Whatever parked change refers to such a record, in the same conflict or in one that builds on
/// it, is rewritten to the new id.
struct MakeAgain {
    let db: Database
    let schema: SyncSchema

    /// Gives new ids to the records of a conflict that it updates and that are gone.
    ///
    /// - Returns: The merged records, under their new keys.
    func renew(_ id: String, _ merged: [MergedRecord]) throws -> [MergedRecord] {
        try db.execute(sql: "DELETE FROM temp.tidemark_assigned")
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT r.tbl, r.key FROM tidemark_conflict_record AS r
                JOIN temp.tidemark_table AS t ON t.tbl = r.tbl AND t.kind = 'integer'
                WHERE r.id = ? AND r.operation IN ('update', 'delete') ORDER BY r.tbl, r.key
                """,
            arguments: [id]
        )
        var keys: [String: String] = [:]
        for row in rows {
            let name: String = try row.value("tbl")
            let key: String = try row.value("key")
            guard let table = schema.byName[name], let old = Int64(key),
                try RowValues(db: db).current(table, key: key) == nil, try isWanted(id, name, key, merged)
            else { continue }
            let new = try TemporaryIDs.next(db)
            keys["\(name) \(key)"] = String(new)
            try db.execute(sql: "INSERT INTO temp.tidemark_assigned VALUES (?, ?, ?)", arguments: [name, old, new])
        }
        guard !keys.isEmpty else { return merged }
        try MapIdentities(db: db, schema: schema).rewriteAssigned(in: ["tidemark_conflict_record"])
        return merged.map {
            let key = keys["\($0.table) \($0.key)"] ?? $0.key
            return MergedRecord(table: $0.table, key: key, columns: $0.columns)
        }
    }

    /// Whether the record is to be there again: a deletion of one that is gone wants nothing.
    private func isWanted(_ id: String, _ table: String, _ key: String, _ merged: [MergedRecord]) throws -> Bool {
        if let given = merged.first(where: { $0.table == table && $0.key == key }) { return given.columns != nil }
        return try Bool.fetchOne(
            db,
            sql: """
                SELECT operation = 'update' AND base IS NOT NULL FROM tidemark_conflict_record
                WHERE id = ? AND tbl = ? AND key = ?
                """,
            arguments: [id, table, key]
        ) ?? false
    }
}
