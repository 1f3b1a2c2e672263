import GRDB
import TidemarkCore
import TidemarkSQL

/// Gives new rows of tables without a key temporary row numbers.
///
/// SQLite numbers a new row with the highest rowid plus one. Other devices and the server do the same, so that
/// number is another record's. The device replaces it when it drains the captured change, which is before it
/// applies any answer. The server then assigns the permanent rowid, as it assigns ids.
struct NumberNewRows {
    let db: Database
    let schema: SyncSchema

    /// Renumbers the new rows in the change sets from the number `sets` on, in the tables, and in the captured changes.
    ///
    /// `first` is the first captured change of these change sets; later changes of a row have the same number.
    func run(from first: Int64, sets: Int64) throws {
        let tables = schema.tables.filter(\.hasRowidKey)
        guard !tables.isEmpty else { return }
        try db.execute(
            cached: "CREATE TEMP TABLE IF NOT EXISTS tidemark_renumbered (old INTEGER PRIMARY KEY, fresh INTEGER)")
        for table in tables {
            // The app may have dropped the table after the edits.
            let isPresent = try db.tableExists(table.name)
            guard try findNewRows(of: table, isPresent: isPresent, sets: sets) > 0 else { continue }
            try db.execute(cached: Self.renumberPending, arguments: [table.name, sets])
            if isPresent { try renumberRows(of: table) }
            try CaptureTables.renumber(
                table, by: "temp.tidemark_renumbered", from: "old", to: "fresh", since: first, in: db)
        }
    }

    private func renumberRows(of table: SyncedTable) throws {
        let key = SQLText.name(table.key[0])
        try DeviceFile.whileApplying(db) {
            try db.execute(
                cached: """
                    UPDATE main.\(SQLText.name(table.name)) AS app_row
                    SET \(key) = renumbered.fresh
                    FROM temp.tidemark_renumbered AS renumbered
                    WHERE app_row.\(key) = renumbered.old
                    """)
        }
    }

    private static let renumberPending = """
        UPDATE tidemark_outbox AS pending
        SET key = CAST(renumbered.fresh AS TEXT)
        FROM temp.tidemark_renumbered AS renumbered
        WHERE pending.tbl = ? AND pending.seq >= ? AND pending.key = CAST(renumbered.old AS TEXT)
        """

    /// Fills `temp.tidemark_renumbered`, and returns the number of new rows.
    private func findNewRows(of table: SyncedTable, isPresent: Bool, sets: Int64) throws -> Int {
        let key = SQLText.name(table.key[0])
        let rows = "(SELECT coalesce(min(\(key)), 0) - 1 FROM main.\(SQLText.name(table.name)))"
        let lowest = isPresent ? rows : "-1"
        try db.execute(cached: "DELETE FROM temp.tidemark_renumbered")
        try db.execute(
            cached: """
                INSERT INTO temp.tidemark_renumbered
                SELECT CAST(key AS INTEGER),
                    min((SELECT next FROM tidemark_temporary), \(lowest)) - row_number() OVER (ORDER BY seq, CAST(key AS INTEGER)) + 1
                FROM tidemark_outbox
                WHERE tbl = ? AND seq >= ?
                    AND operation = 'create'
                    AND CAST(key AS INTEGER) BETWEEN \(table.lowestID) AND \(TemporaryID.permanentMax)
                """, arguments: [table.name, sets])
        let count = db.changesCount
        guard count > 0 else { return 0 }
        try db.execute(
            cached: "UPDATE tidemark_temporary SET next = (SELECT min(fresh) - 1 FROM temp.tidemark_renumbered)")
        return count
    }
}
