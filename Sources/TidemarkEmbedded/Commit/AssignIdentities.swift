import GRDB
import TidemarkCore
package import TidemarkEngine
import TidemarkSQL
import TidemarkStoreSupport

/// Assigns permanent ids in the commit that creates the records.
extension ZoneTransaction {
    package func recallIdentities(_ request: SyncRequest) throws {
        guard let device = request.device, let first = request.changeSets.first else { return }
        let temporaryIDs = try staged.wantedIdentities(request).map {
            "[\(ChangeSetJSON.quote($0.table)),\($0.temporary)]"
        }
        guard !temporaryIDs.isEmpty else { return }
        // `CROSS JOIN` fixes the join order. Otherwise SQLite reads all ids of the device.
        try db.cachedStatement(
            sql: """
                INSERT OR IGNORE INTO temp.tidemark_given
                SELECT \(StagedRequest.list("?3")), id_map.tbl, id_map.temporary, id_map.permanent
                FROM json_each(?1) AS wanted
                CROSS JOIN tidemark_idmap AS id_map
                    ON id_map.device = ?2
                        AND id_map.tbl = wanted.value ->> 0
                        AND id_map.temporary = wanted.value ->> 1
                """
        ).execute(arguments: ["[\(temporaryIDs.joined(separator: ","))]", device, first.ord])
    }

    package func begin(_ ord: Int, device: String?) throws -> Int64 {
        let revision = try nextRevision()
        let tables = try staged.tablesWithTemporaryCreates(ord)
        // The server never assigns an id twice, even after its record was deleted.
        for table in tables {
            let ids = try reserveIdentities(staged.creationCount(table, ord), of: table)
            try staged.give(ids, to: table, in: .one(ord))
        }
        try staged.nameIdentities(.one(ord))
        if let device { for table in tables { try keepIdentities(of: table, ord, device) } }
        return revision
    }

    /// Takes the zone's next revision.
    func nextRevision() throws -> Int64 {
        // With `RETURNING`, SQLite builds a table for the one row each time, which takes ten times as
        // long as both statements.
        try db.cachedStatement(sql: "UPDATE tidemark_zone SET revision = revision + 1").execute()
        return try Int64.fetchOne(db.cachedStatement(sql: "SELECT revision FROM tidemark_zone")) ?? 0
    }

    /// Stores the id map of a change set's new records.
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

    /// Returns the next id of a table: an id that no record has or had.
    ///
    /// A counter beyond the permanent ids comes from a row that the store never accepted.
    func nextIdentity(of table: SyncedTable) throws -> Int64 {
        let name = SQLText.name(table.name)
        let highest = "(SELECT max(\(SQLText.name(table.key[0]))) FROM main.\(name))"
        let storedNextID = planted(PlantedBug.reusesIds) ? "NULL" : "next"
        let isPermanent = "seq <= \(TemporaryID.permanentMax)"
        let counter =
            table.isAutoincrement ? "(SELECT seq FROM sqlite_sequence WHERE name = ?1 AND \(isPermanent))" : "0"
        return try Int64.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT max(
                        coalesce((SELECT \(storedNextID) FROM tidemark_identity WHERE tbl = ?1), 1),
                        coalesce(\(highest), 0) + 1,
                        coalesce(\(counter), 0) + 1)
                    """
            ),
            arguments: [table.name]
        ) ?? 1
    }

    /// Stores the next id of a table.
    func keepNextIdentity(_ next: Int64, of table: SyncedTable) throws {
        try db.cachedStatement(
            sql: """
                INSERT INTO tidemark_identity VALUES (?, ?)
                ON CONFLICT (tbl) DO UPDATE SET next = excluded.next
                """
        ).execute(arguments: [table.name, next])
    }
}
