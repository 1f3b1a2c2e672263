import GRDB
import TidemarkCore
package import TidemarkServer
import TidemarkSQLite
import TidemarkStore

/// Permanent ids: given in the commit that creates the records.
extension ZoneTransaction {
    package func recallIdentities(_ request: SyncRequest) throws {
        guard let device = request.device else { return }
        let wanted = try staged.wantedIdentities(request).map {
            "[\(ChangeSetJSON.quote($0.table)),\($0.temporary)]"
        }
        guard !wanted.isEmpty else { return }
        // `CROSS JOIN`, because SQLite would rather read all ids that the device ever got.
        try db.cachedStatement(
            sql: """
                INSERT OR IGNORE INTO temp.tidemark_assigned
                SELECT m.tbl, m.temporary, m.permanent FROM json_each(?) AS w
                CROSS JOIN tidemark_idmap AS m
                    ON m.device = ? AND m.tbl = w.value ->> 0 AND m.temporary = w.value ->> 1
                """
        ).execute(arguments: ["[\(wanted.joined(separator: ","))]", device])
    }

    package func begin(_ ord: Int, device: String?) throws -> Int64 {
        let revision = try nextRevision()
        for table in try staged.tablesWithTemporaryCreates(ord) { try assign(table, ord, device) }
        try staged.nameIdentities(ord)
        return revision
    }

    /// Takes the zone's next revision.
    func nextRevision() throws -> Int64 {
        // With `RETURNING`, SQLite makes a table for the one row each time, which takes ten times
        // as long as both statements.
        try db.cachedStatement(sql: "UPDATE tidemark_zone SET revision = revision + 1").execute()
        return try Int64.fetchOne(db.cachedStatement(sql: "SELECT revision FROM tidemark_zone"))
            ?? 0
    }

    /// Gives ids to one table's new records.
    ///
    /// An id is never given twice, also when its record is long gone.
    private func assign(_ table: SyncedTable, _ ord: Int, _ device: String?) throws {
        let name = SQLText.name(table.name)
        let highest = "(SELECT max(\(SQLText.name(table.key[0]))) FROM main.\(name))"
        let given = planted(PlantedBug.reusesIds) ? "NULL" : "next"
        let counter =
            table.isAutoincrement ? "(SELECT seq FROM sqlite_sequence WHERE name = ?1)" : "0"
        let first =
            try Int64.fetchOne(
                db.cachedStatement(
                    sql: """
                        SELECT max(coalesce((SELECT \(given) FROM tidemark_identity WHERE tbl = ?1), 1),
                            coalesce(\(highest), 0) + 1, coalesce(\(counter), 0) + 1)
                        """
                ),
                arguments: [table.name]
            ) ?? 1
        let count = try staged.assign(table, ord, from: first)
        try db.cachedStatement(
            sql: """
                INSERT INTO tidemark_identity VALUES (?, ?)
                ON CONFLICT (tbl) DO UPDATE SET next = excluded.next
                """
        ).execute(arguments: [table.name, first + Int64(count)])
        guard let device else { return }
        do {
            try db.cachedStatement(
                sql: """
                    INSERT INTO tidemark_idmap
                    SELECT ?3, tbl, temporary, permanent FROM temp.tidemark_assigned
                    WHERE tbl = ?1 AND permanent >= ?2
                    """
            ).execute(arguments: [table.name, first, device])
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            throw StagedRequest.usedTemporaryId(table, ord)
        }
    }
}
