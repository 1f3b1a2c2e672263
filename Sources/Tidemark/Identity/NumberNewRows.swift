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
        for table in schema.tables where table.hasRowidKey {
            let hasNewRows = try RenumberRecords(db: db, schema: schema).assign(
                """
                SELECT tbl, CAST(key AS INTEGER) AS id
                FROM tidemark_outbox
                WHERE tbl = ? AND seq >= ?
                    AND operation = 'create'
                    AND CAST(key AS INTEGER) BETWEEN \(table.lowestID) AND \(TemporaryID.permanentMax)
                """, arguments: [table.name, sets])
            guard hasNewRows else { continue }
            try db.execute(cached: Self.renumberPending, arguments: [table.name, sets])
            // The app may have dropped the table after the edits.
            if try db.tableExists(table.name) {
                try DeviceFile.whileApplying(db) { try RenameRows(db: db, schema: schema).renameKeys(of: table) }
            }
            try CaptureTables.renumber(table, since: first, in: db)
        }
    }

    private static let renumberPending = """
        UPDATE tidemark_outbox AS pending
        SET key = CAST(assigned.permanent AS TEXT)
        FROM temp.tidemark_assigned AS assigned
        WHERE assigned.tbl = ?1 AND pending.tbl = ?1 AND pending.seq >= ?2
            AND pending.key = CAST(assigned.temporary AS TEXT)
        """
}
