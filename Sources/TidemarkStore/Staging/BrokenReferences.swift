import GRDB
package import TidemarkCore
import TidemarkServer
package import TidemarkSQLite

/// What references that a change set left pointing at nothing mean for its author.
extension StagedRequest {
    /// Whether a record of a table was there once.
    package typealias WasDeleted = (_ table: String, _ key: String) throws -> Bool

    /// Refuses a change set after which references point at nothing; `broken` finds those of a
    /// table.
    package func refuseBroken(
        _ ord: Int,
        broken: (SyncedTable) throws -> [ForeignKeyCheck.Broken],
        wasDeleted: WasDeleted
    ) throws {
        let touched = Set(try touchedTables(ord).map(\.name))
        let suspects = schema.tables.filter { table in
            touched.contains(table.name) || table.references.contains { touched.contains($0.parent) }
        }
        var reasons: [ConflictReason] = []
        var known: Set<ConflictReason> = []
        for reference in try suspects.flatMap(broken) {
            // Forty records that refer to one are one reason.
            let reason = try reason(for: reference, ord, wasDeleted)
            if known.insert(reason).inserted { reasons.append(reason) }
        }
        throw Violation.conflict(
            reasons.isEmpty ? [ConflictReason(table: "", key: "", columns: [], rule: .referenced)] : reasons
        )
    }

    private func reason(for reference: ForeignKeyCheck.Broken, _ ord: Int, _ wasDeleted: WasDeleted) throws
        -> ConflictReason
    {
        let isStaged = try self.isStaged(reference.table, reference.key, ord)
        let isParentStaged = try reference.isToKey && self.isStaged(reference.parent, reference.parentKey, ord)
        if !isStaged || isParentStaged {
            return ConflictReason(table: reference.parent, key: reference.parentKey, columns: [], rule: .referenced)
        }
        guard try reference.isToKey && wasDeleted(reference.parent, reference.parentKey) else {
            throw Violation.refusal(
                TidemarkError(
                    .brokenReference,
                    "The record refers to \(reference.parent) \(reference.parentKey), which does not exist.",
                    fix: "Create the parent in the same or an earlier change set, or refer to another.",
                    place: .init(
                        changeSet: ord,
                        table: reference.table,
                        key: try sentKey(reference.table, reference.key, ord),
                        column: reference.column
                    )
                )
            )
        }
        return ConflictReason(
            table: reference.table,
            key: try toldKey(reference.table, reference.key, ord),
            columns: [reference.column],
            rule: .parentDeleted
        )
    }
}
