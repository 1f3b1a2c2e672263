import GRDB
package import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// The verdict on a change set that leaves dangling references.
extension StagedRequest {
    /// Whether a record of a table existed earlier.
    package typealias WasDeleted = (_ table: String, _ key: String) throws -> Bool

    /// Refuses a change set that leaves dangling references.
    ///
    /// `findBroken` returns the dangling references of a table.
    package func refuseBroken(
        _ ord: Int,
        findBroken: (SyncedTable) throws -> [BrokenReference],
        wasDeleted: WasDeleted
    ) throws {
        let touched = Set(try touchedTables(ord).map(\.name))
        let suspects = schema.tables.filter { table in
            touched.contains(table.name) || table.references.contains { touched.contains($0.parent) }
        }
        var reasons: [ConflictReason] = []
        var distinctReasons: Set<ConflictReason> = []
        for reference in try suspects.flatMap(findBroken) {
            // Many records that refer to one parent give one reason.
            let reason = try reason(for: reference, ord, wasDeleted)
            if distinctReasons.insert(reason).inserted { reasons.append(reason) }
        }
        throw Violation.conflict(
            reasons.isEmpty ? [ConflictReason(table: "", key: "", columns: [], rule: .referenced)] : reasons
        )
    }

    private func reason(for reference: BrokenReference, _ ord: Int, _ wasDeleted: WasDeleted) throws
        -> ConflictReason
    {
        let isStaged = try self.isStaged(reference.table, key: reference.key, ord: ord)
        let isParentStaged =
            try reference.isToKey && self.isStaged(reference.parent, key: reference.parentKey, ord: ord)
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
                        key: try sentKey(reference.table, key: reference.key, ord: ord),
                        column: reference.column
                    )
                )
            )
        }
        return ConflictReason(
            table: reference.table,
            key: try truthKey(reference.table, key: reference.key, ord: ord),
            columns: [reference.column],
            rule: .parentDeleted
        )
    }
}
