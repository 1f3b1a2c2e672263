import GRDB
import TidemarkCore
import TidemarkSQL

/// Gives rows their ids back that another program deleted and inserted again unchanged.
///
/// Some programs write a table whole: they delete all rows and insert them again, under new ids.
/// Captured as it is, a session is as many deletions and creations as the table has rows, and the
/// sessions of two devices double the table. So a new row that equals a deleted one, in a table that
/// was rewritten whole, is the old record, and neither change is sent. The file's map of ids leads
/// from the new id to the old one.
///
/// This holds only for integer keys to which nothing refers: no table declares a reference, and no
/// value of the same change set equals the new id. Another key is the same after the rewriting.
///
/// A migration may have altered the file since. A table with all columns of `schema`, under whatever names, is
/// still one that was rewritten.
struct FoldRewrites {
    let db: Database
    let schema: SyncSchema
    /// The file's names of renamed columns, by table and name in `schema`.
    var columnNames: [String: [String: String]] = [:]

    /// Removes the pairs from `temp.tidemark_reduced`, and renames their rows.
    ///
    /// `groups` are the change sets of other programs in it; no later change is captured.
    ///
    /// - Returns: The number of removed changes.
    func run(_ groups: [TransactionGroups.Group]) throws -> Int {
        guard !groups.isEmpty else { return 0 }
        let bounds = groups.map { "[\($0.range.lowerBound),\($0.range.upperBound)]" }
        let list = "[" + bounds.joined(separator: ",") + "]"
        var removed = 0
        for table in try rewrittenTables() {
            try db.execute(sql: "DELETE FROM temp.tidemark_assigned")
            try pair(table, groups: list)
            guard db.changesCount > 0 else { continue }
            try rename(table)
            removed += try removeChanges(of: table)
        }
        try db.execute(sql: "DELETE FROM temp.tidemark_assigned")
        return removed
    }

    /// Returns the tables in which every row is new.
    private func rewrittenTables() throws -> [SyncedTable] {
        let counts = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT tbl, count(*) FILTER (WHERE operation = 'create') AS created
                    FROM temp.tidemark_reduced
                    GROUP BY tbl
                    HAVING created > 0 AND count(*) FILTER (WHERE operation = 'delete') > 0
                    """
            )
        )
        let referenced = Set(schema.tables.flatMap(\.references).map(\.parent))
        return try counts.compactMap { row in
            guard let table = try schema.byName[row.value("tbl")], table.keyKind == .integer,
                !referenced.contains(table.name), try hasAllColumns(table), try !isReferenced(table)
            else { return nil }
            let created: Int = try row.value("created")
            // Counts one row more at most: a large table has others.
            let rows = try Int.fetchOne(
                db.cachedStatement(
                    sql: "SELECT count(*) FROM (SELECT 1 FROM main.\(SQLText.name(table.name)) LIMIT ?)"
                ),
                arguments: [created + 1]
            )
            return rows == created ? table : nil
        }
    }

    private func hasAllColumns(_ table: SyncedTable) throws -> Bool {
        let columns = try String.fetchSet(
            db.cachedStatement(sql: "SELECT name FROM pragma_table_info(?)"),
            arguments: [table.name]
        )
        let declared = table.hasRowidKey ? table.valueColumns : table.columns
        return !columns.isEmpty && columns.isSuperset(of: declared.map { name($0.name, in: table) })
    }

    /// Whether any table of the file refers to a table, also one that does not sync.
    private func isReferenced(_ table: SyncedTable) throws -> Bool {
        try Bool.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT EXISTS (
                        SELECT 1 FROM main.sqlite_master AS child, pragma_foreign_key_list(child.name) AS reference
                        WHERE child.type = 'table' AND lower(reference."table") = lower(?))
                    """
            ),
            arguments: [table.name]
        ) ?? true
    }

    /// Returns the file's name of a column.
    private func name(_ column: String, in table: SyncedTable) -> String {
        columnNames[table.name]?[column] ?? column
    }

    /// Pairs deleted rows with equal new ones, within a change set.
    private func pair(_ table: SyncedTable, groups: String) throws {
        let key = SQLText.name(name(table.key[0], in: table))
        let ignoresValues = planted(PlantedBug.foldsChangedRows)
        let rows = { (operation: String, image: String) in
            let content = ignoresValues ? "''" : "reduced.\(image)"
            return """
                SELECT reduced.key, reduced.\(image) AS image, \(content) AS content, bounds.key AS grp, row_number() OVER (
                        PARTITION BY bounds.key, \(content) ORDER BY CAST(reduced.key AS INTEGER)) AS place
                    FROM temp.tidemark_reduced AS reduced
                    JOIN json_each(?2) AS bounds
                        ON reduced.seq BETWEEN bounds.value ->> 0 AND bounds.value ->> 1
                    WHERE reduced.tbl = ?1 AND reduced.operation = '\(operation)'
                """
        }
        let image = RowJSON.object(
            table.valueColumns.map(\.name),
            prefix: "app_row.",
            names: columnNames[table.name] ?? [:]
        )
        try db.execute(
            sql: """
                INSERT INTO temp.tidemark_assigned (tbl, temporary, permanent)
                SELECT ?1, CAST(creation.key AS INTEGER), CAST(deletion.key AS INTEGER)
                FROM (\(rows("create", "attributes"))) AS creation
                JOIN (\(rows("delete", "before"))) AS deletion
                    ON deletion.content = creation.content AND deletion.grp = creation.grp
                        AND deletion.place = creation.place
                JOIN main.\(SQLText.name(table.name)) AS app_row
                    ON app_row.\(key) = CAST(creation.key AS INTEGER) AND \(image) = creation.image
                WHERE creation.key NOT IN (
                    SELECT CAST(cell.value AS TEXT)
                    FROM temp.tidemark_reduced AS other
                    JOIN json_each(other.attributes) AS cell
                    WHERE cell.type IN ('integer', 'text'))
                """,
            arguments: [table.name, groups]
        )
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
                    """
            )
        }
        try db.execute(
            sql: "INSERT OR REPLACE INTO tidemark_idmap SELECT tbl, temporary, permanent FROM temp.tidemark_assigned"
        )
    }

    private func removeChanges(of table: SyncedTable) throws -> Int {
        try db.execute(
            sql: """
                DELETE FROM temp.tidemark_reduced
                WHERE tbl = ? AND CAST(key AS INTEGER) IN (
                    SELECT temporary FROM temp.tidemark_assigned
                    UNION ALL
                    SELECT permanent FROM temp.tidemark_assigned)
                """,
            arguments: [table.name]
        )
        return db.changesCount
    }
}
