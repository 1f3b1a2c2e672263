import GRDB
import TidemarkCore
import TidemarkEngine
import TidemarkSQL
import TidemarkStoreSupport

/// Translates PostgreSQL's errors to the errors of the embedded store.
extension PostgresTransaction {
    func violation(of failure: PostgresFailure, _ ord: Int) throws -> Violation {
        let stored = failure.table.flatMap { tables[$0] } ?? statementTable(failure)
        let table = stored?.table.name ?? ""
        switch failure.state {
        case "23505":
            let columns = failure.constraint.flatMap { stored?.uniques[$0] } ?? []
            return .conflict([ConflictReason(table: table, key: "", columns: columns, rule: .unique)])
        case "23503", "23001":
            let parent = statementTable(failure)?.table.name ?? table
            return .conflict([ConflictReason(table: parent, key: "", columns: [], rule: .referenced)])
        case "23502" where failure.column.flatMap { schema.history.fills[table]?[$0] } != nil:
            let column = failure.column ?? ""
            return .refusal(
                TidemarkError(
                    .deviceBehind,
                    "\(table).\(column) is NOT NULL without a default, and the device's version of the table does not have it.",
                    fix: "Update the app, then retry; or give the column a default at the server.",
                    place: .init(changeSet: ord, table: table, column: column)
                )
            )
        case "22003": return .refusal(try outOfRange(failure, ord: ord, stored: stored))
        case let state where state.hasPrefix("22"): return .refusal(Self.unreadable(failure, ord: ord, stored: stored))
        case let state where state.hasPrefix("23"):
            let column = state == "23502" ? failure.column : nil
            let reason =
                column.map { "NOT NULL constraint failed: \(table).\($0)" }
                ?? "CHECK constraint failed: \(check(failure, stored) ?? table)"
            return .refusal(
                TidemarkError(
                    .constraintViolated,
                    "The table refuses a record: \(reason).",
                    fix: "Give every NOT NULL column a value, and values that the CHECK rules allow.",
                    place: .init(changeSet: ord, table: table.isEmpty ? nil : table, column: column)
                )
            )
        default: return .refusal(Self.refused(failure, ord: ord, stored: stored))
        }
    }

    /// Returns the error for a number that a table cannot hold; PostgreSQL does not name the column.
    private func outOfRange(_ failure: PostgresFailure, ord: Int, stored: PostgresTable?) throws -> TidemarkError {
        if let tooLarge = try PostgresText.outOfRange(ord, in: db) { return tooLarge }
        let adding = try stored.map { try Delta.columns(of: $0.table.name, in: .one(ord), db) } ?? []
        return adding.isEmpty
            ? Self.unreadable(failure, ord: ord, stored: stored) : Self.wrongSum(ord: ord, stored: stored)
    }

    /// Returns the error for a sum that is beyond the column's type, or has no integer to add to.
    private static func wrongSum(ord: Int, stored: PostgresTable?) -> TidemarkError {
        TidemarkError(
            .constraintViolated,
            "The table refuses a record: \(Delta.failure).",
            fix: "Give every NOT NULL column a value, and values that the CHECK rules allow.",
            place: .init(changeSet: ord, table: stored?.table.name)
        )
    }

    /// Returns the error for a record that a trigger, index or row policy refuses.
    ///
    /// It quotes only the app's own message from `RAISE EXCEPTION`, because PostgreSQL's may quote rows.
    private static func refused(_ failure: PostgresFailure, ord: Int, stored: PostgresTable?) -> TidemarkError {
        let reason = failure.state == "P0001" ? failure.message : "SQLSTATE \(failure.state)"
        return TidemarkError(
            .constraintViolated,
            "The table refuses a record: \(reason).",
            fix: "Give the record values that the table's rules and triggers allow.",
            place: .init(changeSet: ord, table: stored?.table.name)
        )
    }

    private func check(_ failure: PostgresFailure, _ stored: PostgresTable?) -> String? {
        failure.constraint.map { CheckText.label(of: $0, in: stored?.table.sql ?? "") ?? $0 }
    }

    /// Returns the error for a text that is invalid for the column's type.
    ///
    /// For example an invalid date, an unknown enum label or a text above the maximum length.
    private static func unreadable(_ failure: PostgresFailure, ord: Int, stored: PostgresTable?) -> TidemarkError {
        TidemarkError(
            .invalidValue,
            "A value cannot be read as its column's type in PostgreSQL (SQLSTATE \(failure.state)).",
            fix: "Write a value that is valid for the column's type.",
            place: .init(changeSet: ord, table: stored?.table.name, column: failure.column)
        )
    }

    /// Returns the table that the failed statement writes to.
    private func statementTable(_ failure: PostgresFailure) -> PostgresTable? {
        let sql = failure.sql ?? ""
        return schema.tables.compactMap { table($0.name) }.first {
            sql.hasPrefix("INSERT INTO \($0.name) ") || sql.hasPrefix("UPDATE \($0.name) ")
                || sql.hasPrefix("DELETE FROM \($0.name) ")
        }
    }

    // MARK: References

    /// Checks deferred constraints, and finds the records with broken references.
    func checkReferences(_ ord: Int) throws {
        try pg.execute("SAVEPOINT reference")
        do {
            try pg.execute("SET CONSTRAINTS ALL IMMEDIATE")
            try pg.execute("SET CONSTRAINTS ALL DEFERRED; RELEASE reference")
        } catch let failure as PostgresFailure where failure.isAboutValues {
            try pg.execute("ROLLBACK TO reference; RELEASE reference; SET CONSTRAINTS ALL DEFERRED")
            guard failure.state == "23503" else { throw try violation(of: failure, ord) }
            try staged.refuseBroken(ord, findBroken: { try self.broken(in: $0) }, wasDeleted: wasDeleted)
        }
    }

    private func broken(in table: SyncedTable, limit: Int = 20) throws -> [BrokenReference] {
        guard let child = self.table(table.name) else { return [] }
        return try table.references.flatMap { reference -> [BrokenReference] in
            guard let parent = self.table(reference.parent) else { return [] }
            let columns = reference.columns.map { child.column($0, "child_row") }
            let match = zip(columns, reference.parentColumns).map { "\(parent.column($1, "parent_row")) = \($0)" }
            let parts = reference.columns.map { child.kind($0).json(child.column($0, "child_row")) }
            let parentKey = parts.count == 1 ? parts[0] : "'[' || \(parts.joined(separator: " || ',' || ")) || ']'"
            return try pg.query(
                """
                SELECT \(child.keyJSON("child_row")), \(parentKey)
                FROM \(child.name) AS child_row
                WHERE \(child.inZone("child_row")) AND $1::text IS NOT NULL
                    AND \(columns.map { "\($0) IS NOT NULL" }.joined(separator: " AND "))
                    AND NOT EXISTS (
                        SELECT 1
                        FROM \(parent.name) AS parent_row
                        WHERE \(parent.inZone("parent_row")) AND \(match.joined(separator: " AND ")))
                ORDER BY \(SQLText.names(table.key))
                LIMIT \(limit)
                """,
                [zoneName]
            ).map {
                BrokenReference(
                    table: table.name,
                    key: $0.text(0),
                    column: reference.columns[0],
                    parent: reference.parent,
                    parentKey: $0.text(1),
                    isToKey: parent.table.key == reference.parentColumns
                )
            }
        }
    }

    private func wasDeleted(_ name: String, _ key: String) throws -> Bool {
        let isLogged = try pg.text(
            "SELECT 1 FROM tidemark.log WHERE zone = $1 AND tbl = $2 AND key = $3 LIMIT 1",
            [zoneName, name, key]
        )
        if isLogged != nil { return true }
        // Compaction deletes the entries of deleted records; an id below the next one was assigned.
        guard let table = table(name), table.table.keyKind == .integer, state.horizon > adopted, let id = Int64(key),
            id >= 1
        else { return false }
        let next = try pg.integer("SELECT next FROM tidemark.identity WHERE zone = $1 AND tbl = $2", [zoneName, name])
        return id < next ?? 0
    }
}
