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
        try pair(by: "content")
        let remaining = try Row.fetchOne(
            db, sql: "SELECT (SELECT count(*) FROM (\(Self.rows))) = (SELECT count(*) FROM (\(Self.records)))")
        if try remaining?.value(0) == true { try pair(by: "0") }
        try numberNewRows()
        try write()
        try db.execute(sql: "DROP TABLE temp.tidemark_here; DROP TABLE temp.tidemark_expected")
    }

    /// The rows that have no number yet.
    private static let rows = "SELECT key, content FROM temp.tidemark_here WHERE number IS NULL"
    /// The records that no row has yet.
    private static let records = """
        SELECT key, content FROM temp.tidemark_expected
        WHERE key NOT IN (SELECT number FROM temp.tidemark_here WHERE number IS NOT NULL)
        """

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
                DROP TABLE IF EXISTS temp.tidemark_here;
                DROP TABLE IF EXISTS temp.tidemark_expected;
                CREATE TEMP TABLE tidemark_here (key INTEGER PRIMARY KEY, content TEXT, number INTEGER);
                CREATE TEMP TABLE tidemark_expected (key INTEGER PRIMARY KEY, content TEXT);
                INSERT INTO temp.tidemark_here (key, content) SELECT \(key), \(content(columns.map(\.own))) FROM main.\(name);
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
        let ranked = { (list: String) in
            "SELECT key, \(group) AS part, row_number() OVER (PARTITION BY \(group) ORDER BY key) AS place FROM (\(list))"
        }
        try db.execute(
            sql: """
                UPDATE temp.tidemark_here SET number = pair.number
                FROM (
                    SELECT here.key AS row, expected.key AS number
                    FROM (\(ranked(Self.rows))) AS here
                    JOIN (\(ranked(Self.records))) AS expected
                        ON expected.part = here.part AND expected.place = here.place
                ) AS pair
                WHERE tidemark_here.key = pair.row
                """)
    }

    private func numberNewRows() throws {
        let isNumbered = try RenumberRecords(db: db, schema: schema).assign(
            "SELECT ? AS tbl, key AS id FROM (\(Self.rows))", arguments: [table.name])
        guard isNumbered else { return }
        try db.execute(
            sql: """
                UPDATE temp.tidemark_here SET number = assigned.permanent
                FROM temp.tidemark_assigned AS assigned
                WHERE assigned.tbl = ? AND number IS NULL AND assigned.temporary = tidemark_here.key
                """, arguments: [table.name])
    }

    /// Writes the new numbers, by way of numbers that no row has.
    private func write() throws {
        let key = SQLText.name(table.key[0])
        let update = { (old: String, new: String) in
            """
            UPDATE \(table.abortClause) main.\(SQLText.name(table.name)) AS app_row
            SET \(key) = \(new)
            FROM temp.tidemark_here AS here
            WHERE app_row.\(key) = \(old);
            """
        }
        let passing = "here.key - \(Int64.max / 2)"
        try db.execute(sql: update("here.key", passing) + update(passing, "here.number"))
    }
}
