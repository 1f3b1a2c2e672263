import GRDB
package import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// The ids of new records: the server never assigns one twice, even after its record was deleted.
extension ZoneTransaction {
    /// Returns the next ids of a table up to the end of the server's place, however many are needed.
    package func nextIDs(of place: Int, from least: Int64, count: Int) throws -> [ClosedRange<Int64>] {
        let table = schema.tables[place]
        let known = try RowValues.first(
            """
            SELECT (SELECT next FROM tidemark_identity WHERE tbl = ?),
                (SELECT number > 0 FROM tidemark_lent WHERE id = 1)
            """,
            [.text(table.name)],
            in: db
        )
        let stored = known?[0].integer
        let lends = known?[1] == .integer(1)
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
        var ids = lends ? IDLayout.wide.own(from: first) : Self.all(from: first)
        while let place = ids, let highest = try highestID(of: table, in: place) {
            ids = lends ? IDLayout.wide.own(from: highest + 1) : Self.all(from: highest + 1)
        }
        return ids.map { [$0] } ?? []
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
