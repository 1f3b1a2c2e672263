import GRDB
import TidemarkCore
import TidemarkSQL

/// Gives the rows of a rebuilt table without a key their row numbers back, by their contents.
///
/// A migration that does not copy the rowid numbers the rows anew, and their number is their key. So this finds
/// the record of each row by its values: first the record with the same number, then one with another. Equal
/// rows are matched in order. If as many rows as records remain, each side in order, the rows are edited
/// records: copying keeps the order. Otherwise the remaining rows are new, and get temporary numbers.
struct RestoreRowids {
    let db: Database
    let schema: SyncSchema
    let table: SyncedTable
    /// The value columns that file and zone share, with the zone's names.
    let columns: [(own: String, wire: String)]

    /// The zone's rows are attached as `snapshot`, and pending changes are in the file's rows.
    func run() throws {
        guard !columns.isEmpty else { return }
        try list()
        try db.execute(sql: "DELETE FROM temp.tidemark_renumbered")
        try pair(by: "content")
        let remaining = try Row.fetchOne(
            db, sql: "SELECT (\(count("tidemark_here", "old"))) = (\(count("tidemark_expected", "fresh")))")
        if try remaining?.value(0) == true { try pair(by: "0") }
        try numberNewRows()
        try write()
        try db.execute(sql: "DROP TABLE temp.tidemark_here; DROP TABLE temp.tidemark_expected")
    }

    private func count(_ list: String, _ side: String) -> String {
        "SELECT count(*) FROM temp.\(list) WHERE key NOT IN (SELECT \(side) FROM temp.tidemark_renumbered)"
    }

    /// Lists the file's rows, and the rows that it should have: the zone's, with pending changes.
    private func list() throws {
        let key = SQLText.name(table.key[0])
        let name = SQLText.name(table.name)
        let content = { (names: [String]) in "tidemark_key(\(names.map(SQLText.name).joined(separator: ", ")))" }
        let isPending = "SELECT CAST(key AS INTEGER) FROM tidemark_base WHERE tbl = ?1"
        let names = Set(columns.map(\.own))
        let values = table.columns.filter { names.contains($0.name) }.map {
            CaptureMissedEdits.expected($0, table: "base.tbl", key: "base.key")
        }
        try db.execute(
            sql: """
                CREATE TEMP TABLE IF NOT EXISTS tidemark_renumbered (old INTEGER PRIMARY KEY, fresh INTEGER);
                DROP TABLE IF EXISTS temp.tidemark_here;
                DROP TABLE IF EXISTS temp.tidemark_expected;
                CREATE TEMP TABLE tidemark_here (key INTEGER PRIMARY KEY, content TEXT);
                CREATE TEMP TABLE tidemark_expected (key INTEGER PRIMARY KEY, content TEXT);
                INSERT INTO temp.tidemark_here SELECT \(key), \(content(columns.map(\.own))) FROM main.\(name);
                """)
        try db.execute(
            sql: """
                INSERT INTO temp.tidemark_expected
                SELECT \(key), \(content(columns.map(\.wire))) FROM snapshot.\(name) WHERE \(key) NOT IN (\(isPending))
                """, arguments: [table.name])
        try db.execute(
            sql: """
                INSERT INTO temp.tidemark_expected
                SELECT CAST(base.key AS INTEGER), tidemark_key(\(values.joined(separator: ", ")))
                FROM tidemark_base AS base
                WHERE base.tbl = ?1 AND (
                    SELECT operation FROM tidemark_outbox AS entry
                    WHERE entry.tbl = base.tbl AND entry.key = base.key
                    ORDER BY entry.seq DESC
                    LIMIT 1) <> 'delete'
                """, arguments: [table.name])
        // A row that has its number needs no match.
        try db.execute(
            sql: """
                CREATE TEMP TABLE tidemark_kept_row AS
                SELECT key FROM temp.tidemark_here JOIN temp.tidemark_expected USING (key, content);
                DELETE FROM temp.tidemark_here WHERE key IN (SELECT key FROM temp.tidemark_kept_row);
                DELETE FROM temp.tidemark_expected WHERE key IN (SELECT key FROM temp.tidemark_kept_row);
                DROP TABLE temp.tidemark_kept_row;
                """)
    }

    /// Pairs rows and records that have no pair yet, in order, among those of one group.
    private func pair(by group: String) throws {
        let ranked = { (list: String, side: String) in
            """
            SELECT key, \(group) AS part, row_number() OVER (PARTITION BY \(group) ORDER BY key) AS place
            FROM temp.\(list)
            WHERE key NOT IN (SELECT \(side) FROM temp.tidemark_renumbered)
            """
        }
        try db.execute(
            sql: """
                INSERT INTO temp.tidemark_renumbered (old, fresh)
                SELECT here.key, expected.key
                FROM (\(ranked("tidemark_here", "old"))) AS here
                JOIN (\(ranked("tidemark_expected", "fresh"))) AS expected
                    ON expected.part = here.part AND expected.place = here.place
                """)
    }

    private func numberNewRows() throws {
        let key = SQLText.name(table.key[0])
        let lowest = "(SELECT coalesce(min(\(key)), 0) - 1 FROM main.\(SQLText.name(table.name)))"
        try db.execute(
            sql: """
                INSERT INTO temp.tidemark_renumbered (old, fresh)
                SELECT key, min((SELECT next FROM tidemark_temporary), \(lowest)) - row_number() OVER (ORDER BY key) + 1
                FROM temp.tidemark_here
                WHERE key NOT IN (SELECT old FROM temp.tidemark_renumbered);
                UPDATE tidemark_temporary SET next = min(
                    next, (SELECT coalesce(min(fresh), 0) - 1 FROM temp.tidemark_renumbered));
                """)
    }

    /// Writes the new numbers, by way of numbers that no row has.
    private func write() throws {
        let key = SQLText.name(table.key[0])
        let update = { (old: String, new: String) in
            """
            UPDATE \(table.abortClause) main.\(SQLText.name(table.name)) AS app_row
            SET \(key) = \(new)
            FROM temp.tidemark_renumbered AS renumbered
            WHERE app_row.\(key) = \(old);
            """
        }
        let passing = "renumbered.old - \(Int64.max / 2)"
        try db.execute(sql: update("renumbered.old", passing) + update(passing, "renumbered.fresh"))
    }
}
