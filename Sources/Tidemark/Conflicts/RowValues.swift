import GRDB
import TidemarkCore
import TidemarkSQL

/// Reads rows as values by column, for merge functions and decisions.
struct RowValues {
    let db: Database

    /// Returns a record's current values without the key; nil if the record does not exist.
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

/// The columns that a parked change sets, and those to which it adds.
struct RecordChanges {
    var values: [String: DatabaseValue] = [:]
    var deltas: [String: Int64] = [:]

    /// The names of all its columns.
    var columns: Set<String> { Set(values.keys).union(deltas.keys) }

    /// Reads the changes of a parked record; nil are none.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/fileDamaged`` if the text is no row.
    init(json: String?) throws(TidemarkError) {
        guard let json else { return }
        do throws(InvalidValue) {
            for (column, value) in try CanonicalJSON.columns(of: json) {
                if let number = Delta.number(json: value) {
                    deltas[column] = number
                } else {
                    values[column] = try CanonicalJSON.value(of: value)
                }
            }
        } catch { throw TidemarkError.unreadable("A record of a conflict") }
    }

    /// Returns the values that the change leads to from a row.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` if the row has no integer to add to, or a sum is too large.
    func values(over row: [String: DatabaseValue]) throws -> [String: DatabaseValue] {
        try deltas.reduce(into: values) { values, delta in
            guard case .int64(let current)? = row[delta.key]?.storage,
                case let (sum, overflow) = current.addingReportingOverflow(delta.value), !overflow
            else { throw RecordDecision.misfit("\(delta.key): \(Delta.failure)") }
            values[delta.key] = sum.databaseValue
        }
    }
}

/// The change that a decision makes to one record.
struct RecordDecision {
    let table: SyncedTable
    let key: String
    let operation: TidemarkCore.Operation
    /// The values to write, by column.
    let values: [String: DatabaseValue]
}

extension RecordDecision {
    /// Writes decisions to the tables as one edit, which the triggers capture.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` if they do not fit the current rows; the caller's
    ///   savepoint undoes the write.
    static func write(_ decisions: [RecordDecision], schema: SyncSchema, in db: Database) throws {
        try EngineConnection.prepare(db, schema: schema)
        try StagingTables.clear(in: db)
        for decision in decisions {
            try StagedValues.stage(
                table: decision.table,
                key: decision.key,
                operation: decision.operation,
                values: decision.values,
                ord: StagedPurpose.decision.ord,
                in: db
            )
        }
        do {
            // SQLite enforces references here, but not while the device applies answers.
            try ConnectionFlag.withNewStatements(db) {
                try RecordWriter(db, schema: schema, existing: .overwrite).write(ord: StagedPurpose.decision.ord)
            }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            throw misfit(error.message ?? "a constraint failed")
        }
    }

    /// Returns the error for a change that does not fit the current rows.
    static func misfit(_ reason: String) -> TidemarkError {
        TidemarkError(
            .constraintViolated,
            "The change does not fit the current rows: \(reason).",
            fix: "Edit the rows so that it fits and retry, or accept the server's version."
        )
    }
}
