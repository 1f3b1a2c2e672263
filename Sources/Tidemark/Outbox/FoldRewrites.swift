import GRDB
import TidemarkCore
import TidemarkSQL

/// Gives rows their ids back that another program deleted and inserted again unchanged.
///
/// Some programs write a table whole: they delete all rows and insert them again, under new ids.
/// Captured as it is, a session is as many deletions and creations as the table has rows, and the
/// sessions of two devices double the table. So a new row that another program inserted, and that equals a row that it
/// deleted, is the old record, in a table that was rewritten whole. The row gets the old id, in the table and in the
/// captured changes, before these become change sets. So neither change is sent, and a later edit of the row is one of
/// the old record. The file's map of ids leads from the new id to the old one.
///
/// This holds only for integer keys to which nothing refers: no table declares a reference, and no
/// captured value equals the new id. Another key is the same after the rewriting.
///
/// A migration may have altered the file since. A table with all columns of `schema`, under whatever names, is
/// still one that was rewritten.
struct FoldRewrites {
    let db: Database
    let schema: SyncSchema
    /// The file's names of renamed columns, by table and name in `schema`.
    var columnNames: [String: [String: String]] = [:]

    /// Gives the rows of rewritten tables their ids back; if it throws, the caller must roll back.
    ///
    /// `range` are all captured changes, `outside` those of other programs.
    func run(_ captured: [SyncedTable], in range: ClosedRange<Int64>, outside: [ClosedRange<Int64>]) throws {
        guard !outside.isEmpty else { return }
        let tables = try captured.filter(mayBeRewritten)
        guard !tables.isEmpty else { return }
        _ = try Outbox.store(CapturedEffects(db, schema: schema, in: range), schema, in: db) { _ in Outbox.farAbove }
        let bounds = "[" + outside.map { "[\($0.lowerBound),\($0.upperBound)]" }.joined(separator: ",") + "]"
        for table in tables where try isRewritten(table) {
            try db.execute(sql: "DELETE FROM temp.tidemark_assigned")
            try pair(table, outside: bounds)
            if db.changesCount > 0 { try rename(table) }
        }
        try db.execute(sql: "DELETE FROM temp.tidemark_assigned")
        try db.execute(sql: "DELETE FROM tidemark_outbox WHERE seq = ?", arguments: [Outbox.farAbove])
    }

    /// Whether rows of a table were deleted and inserted, and its keys mean nothing.
    private func mayBeRewritten(_ table: SyncedTable) throws -> Bool {
        let references = schema.tables.lazy.flatMap(\.references)
        guard table.keyKind == .integer, !references.contains(where: { $0.parent == table.name }) else { return false }
        let shadow = SQLText.name(CaptureTables.shadow(table))
        let isWritten = try Bool.fetchOne(
            db,
            cached: """
                SELECT EXISTS (SELECT 1 FROM \(shadow) WHERE kind = 'delete')
                    AND EXISTS (SELECT 1 FROM \(shadow) WHERE kind = 'insert')
                """)
        guard isWritten == true else { return false }
        return try hasAllColumns(table) && !isReferenced(table)
    }

    /// Whether every row of a table is new.
    private func isRewritten(_ table: SyncedTable) throws -> Bool {
        let created = try Int.fetchOne(
            db, cached: "SELECT count(*) FROM tidemark_outbox WHERE seq = ? AND tbl = ? AND operation = 'create'",
            arguments: [Outbox.farAbove, table.name])
        guard let created, created > 0 else { return false }
        // Counts one row more at most: a large table has others.
        let rows = try Int.fetchOne(
            db, cached: "SELECT count(*) FROM (SELECT 1 FROM main.\(SQLText.name(table.name)) LIMIT ?)",
            arguments: [created + 1])
        return rows == created
    }

    private func hasAllColumns(_ table: SyncedTable) throws -> Bool {
        let columns = try String.fetchSet(db, cached: "SELECT name FROM pragma_table_info(?)", arguments: [table.name])
        let declared = table.hasRowidKey ? table.valueColumns : table.columns
        return !columns.isEmpty && columns.isSuperset(of: declared.map { name($0.name, in: table) })
    }

    /// Whether any table of the file refers to a table, also one that does not sync.
    private func isReferenced(_ table: SyncedTable) throws -> Bool {
        try Bool.fetchOne(
            db,
            cached: """
                SELECT EXISTS (
                    SELECT 1 FROM main.sqlite_master AS child, pragma_foreign_key_list(child.name) AS reference
                    WHERE child.type = 'table' AND lower(reference."table") = lower(?))
                """, arguments: [table.name]) ?? true
    }

    private func name(_ column: String, in table: SyncedTable) -> String { columnNames[table.name]?[column] ?? column }

    /// Finds the record that each row of a rewritten table was before.
    ///
    /// A row that a program deletes is the equal row that a program inserts next, through any number of
    /// rewritings and edits between them.
    private func pair(_ table: SyncedTable, outside: String) throws {
        let key = SQLText.name(name(table.key[0], in: table))
        let rows = "main.\(SQLText.name(table.name))"
        try db.execute(
            sql: """
                WITH RECURSIVE outside (first, last) AS MATERIALIZED (
                    SELECT value ->> 0, value ->> 1 FROM json_each(?2)
                ), birth (id, content, place) AS (\(ends(of: table, kind: "insert", side: "new_"))),
                death (id, content, place) AS (\(ends(of: table, kind: "delete", side: "old_"))),
                link (former, id) AS MATERIALIZED (
                    SELECT death.id, birth.id FROM death JOIN birth USING (content, place) WHERE death.id <> birth.id
                ), chain (id, record) AS (
                    SELECT link.id, link.former
                    FROM link
                    CROSS JOIN tidemark_outbox AS reduced
                        ON reduced.seq = ?3 AND reduced.tbl = ?1 AND reduced.key = CAST(link.former AS TEXT) AND operation = 'delete'
                    UNION ALL
                    SELECT link.id, chain.record FROM chain JOIN link ON link.former = chain.id
                )
                INSERT INTO temp.tidemark_assigned (tbl, temporary, permanent)
                SELECT ?1, chain.id, chain.record
                FROM chain
                CROSS JOIN tidemark_outbox AS reduced
                    ON reduced.seq = ?3 AND reduced.tbl = ?1 AND reduced.key = CAST(chain.id AS TEXT) AND operation = 'create'
                WHERE EXISTS (SELECT 1 FROM \(rows) WHERE \(key) = chain.id)
                    AND NOT EXISTS (SELECT 1 FROM \(rows) WHERE \(key) = chain.record)
                    AND CAST(chain.id AS TEXT) NOT IN (
                        SELECT CAST(cell.value AS TEXT)
                        FROM tidemark_outbox AS other
                        JOIN json_each(other.attributes) AS cell
                        WHERE other.seq = ?3 AND cell.type IN ('integer', 'text'))
                """, arguments: [table.name, outside, Outbox.farAbove])
    }

    /// Returns a query for one kind's changes by other programs, numbered among equal rows, without ids used twice.
    private func ends(of table: SyncedTable, kind: String, side: String) -> String {
        let image = RowJSON.object(table.valueColumns.map(\.name), prefix: "captured.", side: side)
        return """
            SELECT id, content, row_number() OVER (PARTITION BY content ORDER BY seq)
            FROM (
                SELECT captured.\(SQLText.name(side + table.key[0])) AS id, min(captured.seq) AS seq,
                    \(planted(PlantedBug.foldsChangedRows) ? "''" : image) AS content
                FROM \(SQLText.name(CaptureTables.shadow(table))) AS captured
                WHERE captured.kind = '\(kind)'
                GROUP BY 1 HAVING count(*) = 1
            )
            WHERE EXISTS (SELECT 1 FROM outside WHERE seq BETWEEN outside.first AND outside.last)
            """
    }

    private func rename(_ table: SyncedTable) throws {
        let key = SQLText.name(name(table.key[0], in: table))
        try DeviceFile.whileApplying(db) {
            try db.execute(
                sql: """
                    UPDATE OR ABORT main.\(SQLText.name(table.name)) AS app_row
                    SET \(key) = assigned.permanent
                    FROM temp.tidemark_assigned AS assigned
                    WHERE app_row.\(key) = assigned.temporary
                    """)
        }
        try CaptureTables.renumber(table, in: db)
        try db.execute(
            sql: "INSERT OR REPLACE INTO tidemark_idmap SELECT tbl, temporary, permanent FROM temp.tidemark_assigned")
    }
}
