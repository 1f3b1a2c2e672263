import GRDB
import TidemarkCore
package import TidemarkServer
import TidemarkSQLite
import TidemarkStore

/// Permanent ids: given in the commit that creates the records.
extension ZoneTransaction {
    package func recallIdentities(_ request: SyncRequest) throws {
        guard let device = request.device, let first = request.changeSets.first else { return }
        let wanted = try staged.wantedIdentities(request).map { "[\(ChangeSetJSON.quote($0.table)),\($0.temporary)]" }
        guard !wanted.isEmpty else { return }
        // `CROSS JOIN`, because SQLite would rather read all ids that the device ever got.
        try db.cachedStatement(
            sql: """
                INSERT OR IGNORE INTO temp.tidemark_given
                SELECT \(StagedRequest.list("?3")), m.tbl, m.temporary, m.permanent FROM json_each(?1) AS w
                CROSS JOIN tidemark_idmap AS m
                    ON m.device = ?2 AND m.tbl = w.value ->> 0 AND m.temporary = w.value ->> 1
                """
        ).execute(arguments: ["[\(wanted.joined(separator: ","))]", device, first.ord])
    }

    package func begin(_ ord: Int, device: String?) throws -> Int64 {
        let revision = try nextRevision()
        let tables = try staged.tablesWithTemporaryCreates(ord)
        // An id is never given twice, also when its record is long gone.
        for table in tables {
            let ids = try identities(staged.creationCount(table, ord), of: table)
            try staged.give(ids, to: table, in: .one(ord))
        }
        try staged.nameIdentities(.one(ord))
        if let device { for table in tables { try keepIdentities(of: table, ord, device) } }
        return revision
    }

    /// Takes the zone's next revision.
    func nextRevision() throws -> Int64 {
        // With `RETURNING`, SQLite makes a table for the one row each time, which takes ten times
        // as long as both statements.
        try db.cachedStatement(sql: "UPDATE tidemark_zone SET revision = revision + 1").execute()
        return try Int64.fetchOne(db.cachedStatement(sql: "SELECT revision FROM tidemark_zone")) ?? 0
    }

    /// Keeps which ids a change set's new records were given.
    private func keepIdentities(of table: SyncedTable, _ ord: Int, _ device: String) throws {
        do {
            try db.cachedStatement(
                sql: """
                    INSERT INTO tidemark_idmap
                    SELECT ?, tbl, CAST(old_key AS INTEGER), CAST(key AS INTEGER)
                    FROM temp.tidemark_staged WHERE ord = ? AND tbl = ? AND operation = 'create'
                    """
            ).execute(arguments: [device, ord, table.name])
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            throw StagedRequest.usedTemporaryId(table, ord)
        }
    }

    /// The next id of a table: one that no record has or had.
    ///
    /// A counter beyond the permanent ids was put there by a row that was never taken in.
    func nextIdentity(of table: SyncedTable) throws -> Int64 {
        let name = SQLText.name(table.name)
        let highest = "(SELECT max(\(SQLText.name(table.key[0]))) FROM main.\(name))"
        let given = planted(PlantedBug.reusesIds) ? "NULL" : "next"
        let isPermanent = "seq <= \(TemporaryID.permanentMax)"
        let counter =
            table.isAutoincrement ? "(SELECT seq FROM sqlite_sequence WHERE name = ?1 AND \(isPermanent))" : "0"
        return try Int64.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT max(coalesce((SELECT \(given) FROM tidemark_identity WHERE tbl = ?1), 1),
                        coalesce(\(highest), 0) + 1, coalesce(\(counter), 0) + 1)
                    """
            ),
            arguments: [table.name]
        ) ?? 1
    }

    /// Keeps what the next id of a table is.
    func keepNextIdentity(_ next: Int64, of table: SyncedTable) throws {
        try db.cachedStatement(
            sql: """
                INSERT INTO tidemark_identity VALUES (?, ?)
                ON CONFLICT (tbl) DO UPDATE SET next = excluded.next
                """
        ).execute(arguments: [table.name, next])
    }
}
