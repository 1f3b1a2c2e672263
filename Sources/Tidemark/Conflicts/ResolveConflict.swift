package import GRDB
package import TidemarkCore
import TidemarkSQL

/// Resolves a parked conflict.
///
/// The triggers capture the outcome like any edit, and it becomes a new change set.
package struct ResolveConflict {
    let db: Database
    let schema: SyncSchema

    /// Creates a resolver for the file behind a connection.
    package init(db: Database, schema: SyncSchema) {
        self.db = db
        self.schema = schema
    }

    /// Resolves the conflict with an id or a number, inside the caller's transaction.
    ///
    /// - Returns: The parked conflicts that depend on it, in their order.
    /// - Throws: ``TidemarkCore/TidemarkError`` if there is no such conflict, if a conflict that it
    ///   depends on is parked, or if the change no longer fits the rows.
    @discardableResult package func resolve(_ name: String, _ resolution: Resolution) throws -> [Conflict] {
        let id = try id(of: name)
        switch resolution {
        case .accept: break
        case .retry: try redo(id, merged: [])
        case .merge(let records): try redo(id, merged: records)
        }
        let dependents = try Conflict.all(db).filter { $0.after.contains(id) }.map(\.id)
        try Self.forget(id, in: db)
        return try Conflict.all(db, schema: schema).filter { dependents.contains($0.id) }
    }

    /// Returns the missing records that the conflict with an id or a number updates.
    func recordsToRecreate(_ name: String) throws -> [Conflict.Record] {
        let id = try id(of: name)
        try EngineConnection.prepare(db, schema: schema)
        let values = RowValues(db: db)
        return try Conflict.all(db, schema: schema).first { $0.id == id }?.records.filter { record in
            guard record.operation == TidemarkCore.Operation.update.rawValue, let table = schema.byName[record.table]
            else { return false }
            return try values.current(table, key: record.key) == nil
        } ?? []
    }

    private func id(of name: String) throws -> String {
        let id = try String.fetchOne(
            db,
            sql: "SELECT id FROM tidemark_conflict WHERE id = lower(?1) OR CAST(number AS TEXT) = ?1",
            arguments: [name]
        )
        guard let id else { throw Self.noConflict(name) }
        return id
    }

    static func noConflict(_ name: String) -> TidemarkError {
        invalid("There is no conflict \(name) in this file.", fix: "`tidemark device conflicts FILE` lists them.")
    }

    /// Deletes a conflict from the list.
    static func forget(_ id: String, in db: Database) throws {
        try db.execute(sql: "DELETE FROM tidemark_conflict_record WHERE id = ?", arguments: [id])
        try db.execute(sql: "DELETE FROM tidemark_conflict WHERE id = ?", arguments: [id])
    }

    // MARK: Retry

    /// Makes the parked changes again, with the values of merged records.
    ///
    /// If the record of a deletion is missing, the deletion is omitted. If the record of an update is
    /// missing, the update creates it again, under a new id if the server assigns ids.
    private func redo(_ id: String, merged: [MergedRecord]) throws {
        try EngineConnection.prepare(db, schema: schema)
        try requirePredecessors(of: id)
        try check(merged, id)
        // A refusal names the records by the ids that the conflict shows.
        _ = try decisions(on: id, merged)
        let renumbered = try RecreateRecords(db: db, schema: schema).assignIDs(id, merged)
        try RecordDecision.write(try decisions(on: id, renumbered), schema: schema, in: db)
    }

    /// Returns the records to write, and refuses references between them and the omitted ones.
    private func decisions(on id: String, _ merged: [MergedRecord]) throws -> [RecordDecision] {
        let rows = try Row.fetchAll(
            db,
            sql: "SELECT * FROM tidemark_conflict_record WHERE id = ? AND operation <> 'unchanged'",
            arguments: [id]
        )
        let mergedByRecord = Dictionary(merged.map { ("\($0.table) \($0.key)", $0) }, uniquingKeysWith: { $1 })
        let decisions = try rows.compactMap { row -> RecordDecision? in
            let table: String = try row.value("tbl")
            let key: String = try row.value("key")
            return try decide(row, mergedByRecord["\(table) \(key)"])
        }
        let omittedRows = try rows.filter { row in
            let table: String = try row.value("tbl")
            let key: String = try row.value("key")
            return mergedByRecord["\(table) \(key)"].map { $0.columns == nil } ?? false
        }
        try OmittedRecords(db: db).check(omittedRows, beside: decisions, in: schema)
        return decisions
    }

    private func decide(_ row: Row, _ merged: MergedRecord?) throws -> RecordDecision? {
        if let merged, merged.columns == nil { return nil }
        guard let table = try schema.byName[row.value("tbl")] else {
            throw Self.invalid(
                try "The table \(row.value("tbl") as String) is no longer synced.",
                fix: "Accept the server's version; the change cannot be made again."
            )
        }
        let values = RowValues(db: db)
        let key: String = try row.value("key")
        let operation: String = try row.value("operation")
        var changes = try RecordChanges(json: row.value("mine"))
        let base = try (row.value("base") as String?).map { try RecordChanges(json: $0).values }
        let current = try values.current(table, key: key)
        let exists = current != nil
        if merged == nil { try requireColumns(changes.columns, in: table, key) }
        for (column, value) in merged?.columns ?? [:] {
            changes.deltas[column] = nil
            changes.values[column] = value
        }
        // What the parked change added is added again, to the row as it is now.
        let newValues = try changes.values(over: current ?? base ?? [:])
        switch operation {
        case "delete":
            guard let columns = merged?.columns else {
                guard exists else { return nil }
                return RecordDecision(table: table, key: key, operation: .delete, values: [:])
            }
            guard exists else {
                let whole = (base ?? [:]).merging(columns) { $1 }
                return RecordDecision(table: table, key: key, operation: .create, values: whole)
            }
            return RecordDecision(table: table, key: key, operation: .update, values: columns)
        case "create": return RecordDecision(table: table, key: key, operation: .create, values: newValues)
        default:
            guard !exists else { return RecordDecision(table: table, key: key, operation: .update, values: newValues) }
            guard let base else {
                throw Self.invalid(
                    "\(table.name) \(key) is missing, and this file has only some of its columns.",
                    fix: "Create the record yourself, or dismiss this with accept."
                )
            }
            let whole = base.merging(newValues) { $1 }
            return RecordDecision(table: table, key: key, operation: .create, values: whole)
        }
    }

    // MARK: Checks

    /// Throws if the conflict depends on another parked conflict.
    func requirePredecessors(of id: String) throws {
        let number = try Int.fetchOne(
            db,
            sql: """
                SELECT predecessor.number
                FROM tidemark_conflict AS parked_set, json_each(parked_set.after) AS after_id
                JOIN tidemark_conflict AS predecessor ON predecessor.id = after_id.value
                WHERE parked_set.id = ?
                ORDER BY predecessor.number
                LIMIT 1
                """,
            arguments: [id]
        )
        guard let number else { return }
        throw Self.invalid(
            "This change set depends on the change set of conflict \(number).",
            fix: "Resolve conflict \(number) first."
        )
    }

    private func check(_ merged: [MergedRecord], _ id: String) throws {
        for record in merged {
            let isPart =
                try Bool.fetchOne(
                    db,
                    sql: """
                        SELECT EXISTS (
                            SELECT 1 FROM tidemark_conflict_record
                            WHERE id = ? AND tbl = ? AND key = ? AND operation <> 'unchanged')
                        """,
                    arguments: [id, record.table, record.key]
                ) ?? false
            guard isPart else {
                throw Self.invalid(
                    "The conflict has no record \(record.table) \(record.key).",
                    fix: "Give values for its records; `tidemark device conflicts FILE` lists them."
                )
            }
            guard let table = schema.byName[record.table] else { continue }
            try requireColumns(Set((record.columns ?? [:]).keys), in: table, record.key)
        }
    }

    /// Throws if a column does not exist, because the write would ignore it silently.
    private func requireColumns(_ names: Set<String>, in table: SyncedTable, _ key: String) throws {
        let columns = Set(table.valueColumns.map(\.name))
        guard let unknown = names.sorted().first(where: { !columns.contains($0) }) else { return }
        throw TidemarkError(
            .unknownColumn,
            "\(table.name) has no value column \(unknown).",
            fix: "Give values only for existing columns, or accept the server's version.",
            place: .init(table: table.name, key: key, column: unknown)
        )
    }

    static func invalid(_ message: String, fix: String) -> TidemarkError {
        TidemarkError(.invalidArgument, message, fix: fix)
    }
}
