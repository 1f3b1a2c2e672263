import GRDB
package import TidemarkCore
import TidemarkEngine
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
                    FROM temp.tidemark_staged WHERE ord = ? AND tbl = ? AND operation = 'create' AND old_key IS NOT NULL
                    """
            ).execute(arguments: [device, ord, table.name])
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            throw StagedRequest.usedTemporaryId(table, ord)
        }
    }

    /// Returns the next ids of a table: no record has or had one of them, and none is lent to a device.
    ///
    /// - Returns: The ids up to the end of the server's place; nil if none are left.
    func nextIdentities(of table: SyncedTable, from least: Int64 = 1) throws -> ClosedRange<Int64>? {
        let stored = try Int64.fetchOne(
            db.cachedStatement(sql: "SELECT next FROM tidemark_identity WHERE tbl = ?"),
            arguments: [table.name]
        )
        let first: Int64
        if planted(PlantedBug.reusesIds) {
            first = least
        } else if let stored, stored <= TemporaryID.assignedMax {
            first = max(least, stored)
        } else {
            // The first id of this table follows all adopted ones. A gap among them may be the id of a
            // deleted record, to which a column without a declared reference still refers.
            let highest = try highestID(of: table, in: 1...TemporaryID.assignedMax)
            first = max(least, (highest ?? 0) + 1)
        }
        var ids = try lendsIDs ? IDLayout.wide.own(from: first) : Self.all(from: first)
        while let place = ids, let highest = try highestID(of: table, in: place) {
            ids = try lendsIDs ? IDLayout.wide.own(from: highest + 1) : Self.all(from: highest + 1)
        }
        return ids
    }

    private static func all(from first: Int64) -> ClosedRange<Int64>? {
        first <= TemporaryID.assignedMax ? first...TemporaryID.assignedMax : nil
    }

    /// Returns the highest id in a range that a row has, or that AUTOINCREMENT remembers.
    private func highestID(of table: SyncedTable, in ids: ClosedRange<Int64>) throws -> Int64? {
        let id = SQLText.name(table.key[0])
        let highest = "SELECT max(\(id)) AS id FROM main.\(SQLText.name(table.name)) WHERE \(id) BETWEEN ?1 AND ?2"
        let remembered = "SELECT seq AS id FROM sqlite_sequence WHERE name = ?3 AND seq BETWEEN ?1 AND ?2"
        guard table.isAutoincrement else {
            return try Int64.fetchOne(db.cachedStatement(sql: highest), arguments: [ids.lowerBound, ids.upperBound])
        }
        return try Int64.fetchOne(
            db.cachedStatement(sql: "SELECT max(id) FROM (\(highest) UNION ALL \(remembered))"),
            arguments: [ids.lowerBound, ids.upperBound, table.name]
        )
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

    package func lend(_ tables: [String]) throws -> [String: [LentIDs]] {
        let number = try Int64.fetchOne(
            db.cachedStatement(
                sql: """
                    INSERT INTO tidemark_lent VALUES (1, 1)
                    ON CONFLICT (id) DO UPDATE SET number = number + 1
                    RETURNING number
                    """
            )
        )
        let place = planted(PlantedBug.lendsPlacesTwice) ? 1 : number
        return tables.compactMap { schema.byName[$0] }.reduce(into: [:]) { lent, table in
            lent[table.name] = table.keyKind == .integer ? place.map { IDLayout.wide.lent($0) } : []
        }
    }

    /// Whether devices create records under lent ids.
    var lendsIDs: Bool {
        get throws {
            try Bool.fetchOne(db.cachedStatement(sql: "SELECT number > 0 FROM tidemark_lent WHERE id = 1")) ?? false
        }
    }
}
