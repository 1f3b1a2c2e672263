package import TidemarkCore

/// The verdict on change sets that leave dangling references.
package struct BrokenReferences {
    private let schema: SyncSchema
    private let changeSets: [PendingChangeSet]
    private let wasDeleted: (_ table: String, _ key: String) throws -> Bool

    /// Makes the verdict; `wasDeleted` tells whether a record existed earlier.
    package init(
        schema: SyncSchema, changeSets: [PendingChangeSet],
        wasDeleted: @escaping (_ table: String, _ key: String) throws -> Bool
    ) {
        self.schema = schema
        self.changeSets = changeSets
        self.wasDeleted = wasDeleted
    }

    /// Returns the violation; `find` returns the dangling references of a table.
    package func violation(_ find: (SyncedTable) throws -> [BrokenReference]) throws -> Violation {
        let touched = Set(changeSets.flatMap { $0.records.map { schema.tables[$0.table].name } })
        let suspects = schema.tables.filter { table in
            touched.contains(table.name) || table.references.contains { touched.contains($0.parent) }
        }
        var reasons: [ConflictReason] = []
        var distinctReasons: Set<ConflictReason> = []
        for reference in try suspects.flatMap(find) {
            // Many records that refer to one parent give one reason.
            switch try reason(for: reference) {
            case .conflict(let found):
                for reason in found where distinctReasons.insert(reason).inserted { reasons.append(reason) }
            case .refusal(let error): return .refusal(error)
            }
        }
        return .conflict(
            reasons.isEmpty ? [ConflictReason(table: "", key: "", columns: [], rule: .referenced)] : reasons)
    }

    private func reason(for reference: BrokenReference) throws -> Violation {
        let child = record(reference.table, reference.key)
        let parent = reference.isToKey ? record(reference.parent, reference.parentKey) : nil
        guard let child, parent == nil else {
            return .conflict([
                ConflictReason(table: reference.parent, key: reference.parentKey, columns: [], rule: .referenced)
            ])
        }
        guard try reference.isToKey && wasDeleted(reference.parent, reference.parentKey) else {
            return .refusal(
                TidemarkError(
                    .brokenReference,
                    "The record refers to \(reference.parent) \(reference.parentKey), which does not exist.",
                    fix: "Create the parent in the same or an earlier change set, or refer to another.",
                    place: .init(table: reference.table, key: child.authorsKey ?? child.key, column: reference.column)))
        }
        // A refused new record keeps its temporary id: its permanent id is assigned to another record later.
        let key = child.operation == .create ? child.authorsKey ?? child.key : child.key
        return .conflict([
            ConflictReason(table: reference.table, key: key, columns: [reference.column], rule: .parentDeleted)
        ])
    }

    private func record(_ table: String, _ key: String) -> PendingChangeSet.Record? {
        guard let place = schema.tables.firstIndex(where: { $0.name == table }) else { return nil }
        return changeSets.lazy.flatMap(\.records).first { $0.table == place && $0.key.utf8.elementsEqual(key.utf8) }
    }
}
