import GRDB
package import TidemarkCore
package import TidemarkEngine
import TidemarkSQL

/// The ids of new records: the server never assigns one twice, even after its record was deleted.
extension ZoneTransaction {
    /// Returns the next ids of tables up to the end of the server's place, however many are needed.
    package func nextIDs(_ wanted: [Int: WantedIDs]) throws -> [Int: [ClosedRange<Int64>]] {
        let places = wanted.keys.sorted()
        guard !places.isEmpty else { return [:] }
        let known = places.map { place in
            let table = schema.tables[place]
            let name = SQLText.literal(table.name)
            let highest = "(\(highestSQL(of: table, "1", "\(TemporaryID.assignedMax)")))"
            return """
                SELECT \(place), (SELECT next FROM tidemark_identity WHERE tbl = \(name)),
                    (SELECT number > 0 FROM tidemark_lent WHERE id = 1), \(highest)
                """
        }
        var next: [Int: [ClosedRange<Int64>]] = [:]
        var rows: [[Value]] = []
        try RowValues.read(known.joined(separator: " UNION ALL "), in: db) { rows.append($0) }
        for values in rows {
            guard let place = values[0].integer.map(Int.init), let wish = wanted[place] else { continue }
            next[place] = try ids(of: schema.tables[place], from: wish.least, values)
        }
        return next
    }

    /// Returns the next ids of a table; `known` is its row of ``nextIDs(_:)``.
    private func ids(of table: SyncedTable, from least: Int64, _ known: [Value]) throws -> [ClosedRange<Int64>] {
        let lends = known[2] == .integer(1)
        let highest = known[3].integer ?? 0
        let first: Int64
        if planted(PlantedBug.reusesIds) {
            first = least
        } else if let stored = known[1].integer, stored <= TemporaryID.assignedMax {
            first = max(least, stored)
        } else {
            // The first id of this table follows all adopted ones. A gap among them may be the id of a
            // deleted record, to which a column without a declared reference still refers.
            first = max(least, highest + 1)
        }
        let from = { (id: Int64) in lends ? IDLayout.wide.own(from: id) : Self.all(from: id) }
        var ids = from(first)
        while highest >= first, let place = ids, let taken = try highestID(of: table, in: place) {
            ids = from(taken + 1)
        }
        return ids.map { [$0] } ?? []
    }

    private static func all(from first: Int64) -> ClosedRange<Int64>? {
        first <= TemporaryID.assignedMax ? first...TemporaryID.assignedMax : nil
    }

    /// Returns the highest id in a range that a row has, or that AUTOINCREMENT remembers.
    private func highestID(of table: SyncedTable, in ids: ClosedRange<Int64>) throws -> Int64? {
        try Int64.fetchOne(
            db.cachedStatement(sql: highestSQL(of: table, "?1", "?2")),
            arguments: [ids.lowerBound, ids.upperBound]
        )
    }

    /// The SQL of the highest id in a range.
    private func highestSQL(of table: SyncedTable, _ first: String, _ last: String) -> String {
        let id = SQLText.name(table.key[0])
        let highest = """
            SELECT max(\(id)) AS id FROM main.\(SQLText.name(table.name)) WHERE \(id) BETWEEN \(first) AND \(last)
            """
        guard table.isAutoincrement else { return highest }
        let name = SQLText.literal(table.name)
        return """
            SELECT max(id) FROM (\(highest)
                UNION ALL SELECT seq AS id FROM sqlite_sequence WHERE name = \(name) AND seq BETWEEN \(first) AND \(last))
            """
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
