package import GRDB
package import TidemarkCore

/// Stages single records from decoded values.
package enum StagedValues {
    /// Stages one record as part of change set `ord`.
    package static func stage(
        table: SyncedTable, key: String, operation: TidemarkCore.Operation, values: [String: DatabaseValue], ord: Int,
        in db: Database
    ) throws {
        try db.cachedStatement(
            sql: "INSERT INTO temp.tidemark_staged (ord, tbl, key, operation) VALUES (?, ?, ?, ?)"
        ).execute(arguments: [ord, table.name, key, operation.rawValue])
        let rec = db.lastInsertedRowID
        let insert = try db.cachedStatement(
            sql: "INSERT INTO temp.tidemark_staged_cell (rec, col, value) VALUES (?, ?, ?)")
        for column in table.valueColumns.map(\.name) {
            guard let value = values[column] else { continue }
            try insert.execute(arguments: [rec, column, value])
        }
        try db.execute(sql: ChangeSetStaging.keyCellSQL(where: "staged.rec = \(rec)"))
    }
}
