import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// Translates PostgreSQL's errors to the errors of the embedded store.
extension PostgresTransaction {
    func violation(of failure: PostgresFailure, _ changeSets: [PendingChangeSet]) throws -> Violation {
        let stored = failure.table.flatMap { served.tables[$0] } ?? statementTable(failure)
        let table = stored?.table.name ?? ""
        switch failure.state {
        case "23505":
            let columns = failure.constraint.flatMap { stored?.uniques[$0] } ?? stored?.table.key ?? []
            return .conflict([ConflictReason(table: table, key: "", columns: columns, rule: .unique)])
        case "23503", "23001":
            let parent = statementTable(failure)?.table.name ?? table
            return .conflict([ConflictReason(table: parent, key: "", columns: [], rule: .referenced)])
        case "23502" where failure.column.flatMap { schema.history.fills[table]?[$0] } != nil:
            return .refusal(.deviceBehind(table, failure.column ?? ""))
        case "22003": return .refusal(try outOfRange(failure, stored, of: changeSets))
        case let state where state.hasPrefix("22"): return .refusal(Self.unreadable(failure, stored))
        case let state where state.hasPrefix("23"):
            let column = state == "23502" ? failure.column : nil
            let reason =
                column.map { "NOT NULL constraint failed: \(table).\($0)" }
                ?? "CHECK constraint failed: \(check(failure, stored) ?? table)"
            return .refusal(.constraintViolated(reason, in: table.isEmpty ? nil : table, column))
        default: return .refusal(Self.refused(failure, stored))
        }
    }

    /// Returns the error for a number that a table cannot hold; PostgreSQL does not name the column.
    private func outOfRange(_ failure: PostgresFailure, _ stored: PostgresTable?, of changeSets: [PendingChangeSet])
        throws -> TidemarkError
    {
        for changeSet in changeSets {
            for record in changeSet.records {
                if let tooLarge = try tooLarge(record, of: changeSet) { return tooLarge }
            }
        }
        let adds = changeSets.contains { changeSet in
            changeSet.records.contains { record in
                schema.tables[record.table].name == stored?.table.name
                    && record.values.contains { changeSet.delta(at: $0) != nil }
            }
        }
        // The sum is beyond the column's type, or has no integer to add to.
        guard !adds else { return .constraintViolated(Delta.failure, in: stored?.table.name) }
        return Self.unreadable(failure, stored)
    }

    /// Returns the error for an integer that its column is too small for, after the assignment of ids.
    private func tooLarge(_ record: PendingChangeSet.Record, of changeSet: PendingChangeSet) throws -> TidemarkError? {
        let table = try table(record.table)
        var values = zip(table.table.key, Value.parts(ofKey: record.key)).map { ($0, $1) }
        for (place, column) in changeSet.columns(of: record) where changeSet.delta(at: place) == nil {
            values.append((column.name, try changeSet.value(at: place)))
        }
        for (column, value) in values {
            guard let bits = PostgresText.bits[table.type(column)], let number = value.integer else { continue }
            let bound = Int64(1) << (bits - 1)
            guard !(-bound..<bound).contains(number) else { continue }
            return PostgresText.refusal(
                "is \(number), beyond the bounds \(-bound) and \(bound - 1) of an integer of \(bits) bits",
                .init(table: table.table.name, key: record.key, column: column))
        }
        return nil
    }

    /// The error of a trigger, index or row policy; it quotes only the app's `RAISE EXCEPTION`: others may quote rows.
    private static func refused(_ failure: PostgresFailure, _ stored: PostgresTable?) -> TidemarkError {
        let reason = failure.state == "P0001" ? failure.message : "SQLSTATE \(failure.state)"
        return TidemarkError(
            .constraintViolated, "The table refuses a record: \(reason).",
            fix: "Give the record values that the table's rules and triggers allow.",
            place: .init(table: stored?.table.name))
    }

    private func check(_ failure: PostgresFailure, _ stored: PostgresTable?) -> String? {
        failure.constraint.map { CheckText.label(of: $0, in: stored?.table.sql ?? "") ?? $0 }
    }

    /// The error for a text that is invalid for its column's type: a date, an enum label, or one that is too long.
    private static func unreadable(_ failure: PostgresFailure, _ stored: PostgresTable?) -> TidemarkError {
        TidemarkError(
            .invalidValue, "A value cannot be read as its column's type in PostgreSQL (SQLSTATE \(failure.state)).",
            fix: "Write a value that is valid for the column's type.",
            place: .init(table: stored?.table.name, column: failure.column))
    }

    private func statementTable(_ failure: PostgresFailure) -> PostgresTable? {
        let sql = failure.sql ?? ""
        return served.tables.values.first {
            sql.hasPrefix("INSERT INTO \($0.name) ") || sql.hasPrefix("UPDATE \($0.name) ")
                || sql.hasPrefix("DELETE FROM \($0.name) ")
        }
    }

    /// Translates a failed write; to find broken references, it repeats the write without their check, and undoes it.
    func violation(of failure: PostgresFailure, _ changeSets: [PendingChangeSet], parking: Bool) throws -> Violation {
        // The caller writes change sets of a run one by one then, and takes those reasons.
        guard failure.state == "23503", changeSets.count == 1 else { return try violation(of: failure, changeSets) }
        do {
            try undoable { () throws -> Void in
                var steps = Steps(pg, hasTriggers: served.hasTriggers)
                try writeRows(of: changeSets, parking: parking, &steps)
                _ = try steps.run([])
                let broken = BrokenReferences(schema: schema, changeSets: changeSets, wasDeleted: wasDeleted)
                throw try broken.violation(broken(in:))
            }.get()
        } catch let violation as Violation { return violation } catch let failure as PostgresFailure
            where failure.isAboutValues
        {
            // A statement fails by itself: another row refers to a record that it deletes.
            return try violation(of: failure, changeSets)
        }
        return try violation(of: failure, changeSets)
    }

    /// Returns references of a table without a parent.
    private func broken(in synced: SyncedTable) throws -> [BrokenReference] {
        let child = try table(synced.name)
        return try synced.references.flatMap { reference -> [BrokenReference] in
            let parent = try table(reference.parent)
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
                ORDER BY \(SQLText.names(synced.key))
                LIMIT \(Self.brokenMax)
                """,
                [zone]
            ).map {
                BrokenReference(
                    table: synced.name, key: $0.text(0), column: reference.columns[0], parent: reference.parent,
                    parentKey: $0.text(1), isToKey: parent.table.key == reference.parentColumns)
            }
        }
    }

    /// The most broken references of a table that a violation names.
    private static let brokenMax = 20
}
