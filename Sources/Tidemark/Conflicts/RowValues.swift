import GRDB
import TidemarkCore
import TidemarkSQLite

/// Rows as the app's merge function and people's decisions see them: values by column.
struct RowValues {
    let db: Database

    /// The values of an image: a JSON object of columns in canonical form.
    func decode(_ image: String) throws -> [String: DatabaseValue] {
        let rows = try Row.fetchAll(
            db.cachedStatement(sql: "SELECT j.key, tidemark_decode(?1 -> j.fullkey) AS value FROM json_each(?1) AS j"),
            arguments: [image]
        )
        return try rows.reduce(into: [:]) { try $0[$1.value("key") as String] = $1.value("value") as DatabaseValue }
    }

    /// The values of a record as its table has it now, apart from the key; nil when it is not
    /// there.
    func current(_ table: SyncedTable, key: String) throws -> [String: DatabaseValue]? {
        let columns = (table.valueColumns.isEmpty ? table.columns : table.valueColumns).map(\.name)
        let row = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT \(SQLText.names(columns)) FROM main.\(SQLText.name(table.name))
                    WHERE \(KeySQL.match(table, key: "?1"))
                    """
            ),
            arguments: [key]
        )
        guard let row else { return nil }
        return table.valueColumns.reduce(into: [:]) { $0[$1.name] = row[$1.name] as DatabaseValue }
    }
}

/// What a decision writes to one record.
struct RecordDecision {
    let table: SyncedTable
    let key: String
    let operation: TidemarkCore.Operation
    /// The columns that are set; of a creation all that are known.
    let values: [String: DatabaseValue]
}

extension RecordDecision {
    /// Writes decisions into the tables as one ordinary edit, which the triggers capture.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` when they do not fit the rows as they are now; the
    ///   caller's savepoint undoes the rest.
    static func write(_ decisions: [RecordDecision], schema: SyncSchema, in db: Database) throws {
        try EngineConnection.prepare(db, schema: schema)
        try StagingTables.clear(in: db)
        for decision in decisions {
            try StagedValues.stage(
                table: decision.table,
                key: decision.key,
                operation: decision.operation,
                values: decision.values,
                ord: 0,
                in: db
            )
        }
        do {
            // References are enforced here, unlike where answers are applied.
            try ConnectionFlag.preparingAnew(db) {
                try RecordWriter(db, schema: schema, existing: .overwrite).write(ord: 0)
            }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            throw misfit(error.message ?? "a constraint failed")
        }
    }

    /// The error for a change that the rows do not take.
    static func misfit(_ reason: String) -> TidemarkError {
        TidemarkError(
            .constraintViolated,
            "The change does not fit the rows as they are now: \(reason).",
            fix: "Edit the rows so that it does, then retry; or accept the server's version."
        )
    }
}
