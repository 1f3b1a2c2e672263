import GRDB
import TidemarkCore
import TidemarkSQL

/// The edits in ``ReplacedRows`` during the comparison.
extension CompareRebuilt {
    /// Marks replaced rows with an edit of a value that others wrote since, or that are deleted; no additions.
    func markContended(_ table: SyncedTable) throws {
        let edited = try edits(table).filter(\.hasValues).map { JSONText.quote($0.key) }
        try db.execute(
            sql: """
                UPDATE tidemark_replaced SET contended = 1
                WHERE tbl = ?1 AND (mine IS NULL OR key IN (SELECT value FROM json_each(?2)))
                """, arguments: [table.name, JSONText.array(edited)])
    }

    /// Puts known edits back into rows that an answer replaced, and adds again what the migration added to a number.
    func restoreReplaced(_ table: SyncedTable, contended: Bool) throws {
        var builder = ChangeSetBuilder(schema)
        guard let place = schema.places[table.name] else { return }
        for edit in try edits(table) where edit.isContended == contended {
            try builder.add(.update, RecordID(table: place, key: edit.key), json: edit.json)
        }
        try ChangeWriter(db, schema: schema, isDevice: true).write(builder.build())
    }

    /// What the migration wrote into a replaced row, as a change; `hasValues` if not all of it are additions.
    private typealias Edit = (key: String, json: String, hasValues: Bool, isContended: Bool)

    /// Returns the edits in replaced rows; a value that the row has got since stands.
    private func edits(_ table: SyncedTable) throws -> [Edit] {
        let columns = shared(table)
        let names = Dictionary(uniqueKeysWithValues: columns.map { ($0.own, Self.prefix + $0.wire) })
        let adding = schema.addingColumns(of: table.name)
        let rows = try Row.fetchCursor(
            db,
            sql: """
                SELECT replaced.key, replaced.contended, replaced.mine, replaced.base,
                    \(RowJSON.object(columns.map(\.own), prefix: "t.")) AS present,
                    \(RowJSON.object(columns.map(\.own), prefix: "zone_row.", names: names)) AS theirs
                FROM tidemark_replaced AS replaced
                JOIN \(Self.zoneRows) ON zone_row.own = replaced.key
                CROSS JOIN main.\(SQLText.name(table.name)) AS t
                    ON \(KeySQL.match(table, key: "replaced.key", alias: "t."))
                WHERE replaced.tbl = ?1 AND replaced.base IS NOT NULL
                """, arguments: [table.name])
        var edits: [Edit] = []
        while let row = try rows.next() {
            guard let mine = try RecordImage(stored: row.value("mine")),
                let base = try RecordImage(stored: row.value("base")),
                let present = try RecordImage(stored: row.value("present")),
                let theirs = try RecordImage(stored: row.value("theirs"))
            else { continue }
            let edited =
                planted(PlantedBug.takesRebuiltRowsForEdits)
                ? Set(mine.columns.keys).intersection(base.columns.keys) : mine.columns(differingFrom: base)
            let since = present.columns(differingFrom: theirs)
            var change = mine.columns.filter { edited.subtracting(since).contains($0.key) }
            var additions = 0
            for column in adding where change[column] != nil {
                guard let written = mine.integer(column), let seen = base.integer(column),
                    let now = present.integer(column),
                    case let (added, isHuge) = written.subtractingReportingOverflow(seen), !isHuge,
                    !now.addingReportingOverflow(added).overflow
                else { continue }
                change[column] = Array(#"{"$add":\#(added)}"#.utf8)
                additions += 1
            }
            guard !change.isEmpty else { continue }
            edits.append(
                (
                    try row.value("key"), RecordImage(columns: change).json, change.count > additions,
                    try row.value("contended")
                ))
        }
        return edits
    }

    func hasContended(_ table: SyncedTable) throws -> Bool {
        try Bool.fetchOne(
            db, sql: "SELECT EXISTS (SELECT 1 FROM tidemark_replaced WHERE tbl = ? AND contended)",
            arguments: [table.name]) ?? false
    }

    func isContended(_ table: SyncedTable, key: String, _ isWanted: Bool) -> String {
        """
        \(isWanted ? "" : "NOT ")EXISTS (
            SELECT 1 FROM tidemark_replaced AS replaced
            WHERE replaced.tbl = \(SQLText.literal(table.name)) AND replaced.key = \(key) AND replaced.contended)
        """
    }

    /// Bases the captured edits on the revision that their rows had.
    func dateContended(_ table: SyncedTable) throws {
        try db.execute(
            sql: """
                UPDATE tidemark_capture AS capture SET base = replaced.since
                FROM \(SQLText.name(CaptureTables.shadow(table))) AS captured
                JOIN tidemark_replaced AS replaced
                    ON replaced.tbl = ?1 AND replaced.key = \(RowJSON.key(table, prefix: "old_", alias: "captured."))
                WHERE capture.seq = captured.seq AND capture.tbl = ?1
                """, arguments: [table.name])
    }
}
