package import GRDB
package import TidemarkCore
import TidemarkSQLite

/// Resolves a parked conflict.
///
/// The outcome is an ordinary edit: it is captured and becomes a new change set.
package struct ResolveConflict {
    let db: Database
    let schema: SyncSchema

    /// Resolves conflicts of the file behind a connection.
    package init(db: Database, schema: SyncSchema) { (self.db, self.schema) = (db, schema) }

    /// Resolves the conflict with an id or a number, inside a transaction of the caller's.
    ///
    /// - Returns: The conflicts that were parked because they build on it, in their order.
    /// - Throws: ``TidemarkCore/TidemarkError`` when there is none, when it builds on one that is
    ///   parked itself, or when the change does not fit the rows any more.
    @discardableResult package func resolve(_ name: String, _ resolution: Resolution) throws -> [Conflict] {
        let id = try id(of: name)
        switch resolution {
        case .accept: break
        case .retry: try redo(id, merged: [])
        case .merge(let records): try redo(id, merged: records)
        }
        let next = try Conflict.all(db).filter { $0.after.contains(id) }.map(\.id)
        try Self.forget(id, in: db)
        return try Conflict.all(db).filter { next.contains($0.id) }
    }

    /// The records that the conflict with an id or a number updates and that are gone.
    func madeAnew(_ name: String) throws -> [Conflict.Record] {
        let id = try id(of: name)
        try EngineConnection.prepare(db, schema: schema)
        let values = RowValues(db: db)
        return try Conflict.all(db).first { $0.id == id }?.records.filter { record in
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

    /// Takes a conflict off the list.
    static func forget(_ id: String, in db: Database) throws {
        try db.execute(sql: "DELETE FROM tidemark_conflict_record WHERE id = ?", arguments: [id])
        try db.execute(sql: "DELETE FROM tidemark_conflict WHERE id = ?", arguments: [id])
    }

    // MARK: Making it again

    /// Makes the parked changes again, with other values where somebody has merged them.
    ///
    /// An update or deletion whose record is gone is left out when it would delete, and creates the
    /// record again, under a new id where the server gives ids, when it would update.
    private func redo(_ id: String, merged: [MergedRecord]) throws {
        try EngineConnection.prepare(db, schema: schema)
        try requirePredecessors(of: id)
        try check(merged, id)
        let merged = try MakeAgain(db: db, schema: schema).renew(id, merged)
        let rows = try Row.fetchAll(
            db,
            sql: "SELECT * FROM tidemark_conflict_record WHERE id = ? AND operation <> 'unchanged'",
            arguments: [id]
        )
        let byRecord = Dictionary(merged.map { ("\($0.table) \($0.key)", $0) }, uniquingKeysWith: { $1 })
        let decisions = try rows.compactMap { row -> RecordDecision? in
            let table: String = try row.value("tbl")
            let key: String = try row.value("key")
            return try decide(row, byRecord["\(table) \(key)"])
        }
        let leftOut = try rows.filter { row in
            let table: String = try row.value("tbl")
            let key: String = try row.value("key")
            return byRecord["\(table) \(key)"].map { $0.columns == nil } ?? false
        }
        try LeftOut(db: db).check(leftOut, beside: decisions, in: schema)
        try RecordDecision.write(decisions, schema: schema, in: db)
    }

    private func decide(_ row: Row, _ merged: MergedRecord?) throws -> RecordDecision? {
        if let merged, merged.columns == nil { return nil }
        guard let table = try schema.byName[row.value("tbl")] else {
            throw Self.invalid(
                try "The table \(row.value("tbl") as String) is not synced any more.",
                fix: "Accept the server's version; the change cannot be made again."
            )
        }
        let values = RowValues(db: db)
        let key: String = try row.value("key")
        let operation: String = try row.value("operation")
        let mine = try (row.value("mine") as String?).map { try values.decode($0) } ?? [:]
        let base = try (row.value("base") as String?).map { try values.decode($0) }
        let isThere = try values.current(table, key: key) != nil
        if merged == nil { try requireColumns(of: mine, in: table, key) }
        let wanted = mine.merging(merged?.columns ?? [:]) { $1 }
        switch operation {
        case "delete":
            guard let columns = merged?.columns else {
                guard isThere else { return nil }
                return RecordDecision(table: table, key: key, operation: .delete, values: [:])
            }
            guard isThere else {
                let whole = (base ?? [:]).merging(columns) { $1 }
                return RecordDecision(table: table, key: key, operation: .create, values: whole)
            }
            return RecordDecision(table: table, key: key, operation: .update, values: columns)
        case "create": return RecordDecision(table: table, key: key, operation: .create, values: wanted)
        default:
            guard !isThere else { return RecordDecision(table: table, key: key, operation: .update, values: wanted) }
            guard let base else {
                throw Self.invalid(
                    "\(table.name) \(key) is gone, and only a part of it is kept here.",
                    fix: "Create the record yourself, or dismiss this with accept."
                )
            }
            let whole = base.merging(wanted) { $1 }
            return RecordDecision(table: table, key: key, operation: .create, values: whole)
        }
    }

    // MARK: Checks

    /// What builds on a parked change set cannot come before it.
    func requirePredecessors(of id: String) throws {
        let number = try Int.fetchOne(
            db,
            sql: """
                SELECT p.number FROM tidemark_conflict AS c, json_each(c.after) AS a
                JOIN tidemark_conflict AS p ON p.id = a.value
                WHERE c.id = ? ORDER BY p.number LIMIT 1
                """,
            arguments: [id]
        )
        guard let number else { return }
        throw Self.invalid(
            "This change set builds on that of conflict \(number).",
            fix: "Resolve conflict \(number) first."
        )
    }

    private func check(_ merged: [MergedRecord], _ id: String) throws {
        for record in merged {
            let isPart =
                try Bool.fetchOne(
                    db,
                    sql: """
                        SELECT EXISTS (SELECT 1 FROM tidemark_conflict_record
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
            try requireColumns(of: record.columns ?? [:], in: table, record.key)
        }
    }

    /// A column that the table does not have would be dropped without a word.
    private func requireColumns(of values: [String: DatabaseValue], in table: SyncedTable, _ key: String) throws {
        let known = Set(table.valueColumns.map(\.name))
        guard let unknown = values.keys.sorted().first(where: { !known.contains($0) }) else { return }
        throw TidemarkError(
            .unknownColumn,
            "\(table.name) has no column \(unknown) apart from its key.",
            fix: "Merge with values for the columns that it has, or accept the server's version.",
            place: .init(table: table.name, key: key, column: unknown)
        )
    }

    static func invalid(_ message: String, fix: String) -> TidemarkError {
        TidemarkError(.invalidArgument, message, fix: fix)
    }
}
