import Foundation
import GRDB
import TidemarkCore
import TidemarkSQLite

/// Lets the app's merge functions decide parked conflicts.
///
/// What they return is written like an edit of the app's and becomes a new change set, based on the
/// server's rows as they are now. When that is refused again it is merged again, a bounded number
/// of times; then, and whenever a function says nothing, a person is asked.
///
/// A conflict is merged when all of its records can be: those that nobody else touched are made
/// again, the others need a function for their table. Refused deletions, records that are gone, and
/// whatever stands in the way without being a record of the conflict are for people.
struct MergeConflicts {
    let db: Database
    let schema: SyncSchema
    let functions: [String: MergeFunction]
    let limits: Limits

    /// A parked change set that no person has been asked about yet.
    private struct Parked {
        let id: String
        let merges: Int
    }

    /// The rules that a merge can do something about.
    private static let mergeable: Set<String> = [
        ConflictRule.changed.rawValue, ConflictRule.exists.rawValue, ConflictRule.predecessor.rawValue,
    ]

    /// Merges what can be merged, in a transaction of the caller's.
    ///
    /// - Returns: The ids of the conflicts that are settled.
    func run(boundaries: KnownTransactions, now: Date, newID: () -> UUID) throws -> [String] {
        guard !functions.isEmpty, try hasCandidates() else { return [] }
        try EngineConnection.prepare(db, schema: schema)
        let outbox = DrainCapture(db: db, schema: schema)
        try outbox.drain(boundaries: boundaries, now: now, newID: newID)
        var merged: [String] = []
        // One settled may free those that build on it.
        for conflict in try Conflict.all(db) where conflict.kind == .refused {
            guard let parked = try candidate(conflict) else { continue }
            guard parked.merges < limits.mergesMax, try merge(conflict) else {
                try ask(parked.id)
                continue
            }
            try ResolveConflict.forget(parked.id, in: db)
            let last = try Int64.fetchOne(db, sql: "SELECT max(seq) FROM tidemark_changeset") ?? 0
            try outbox.drain(boundaries: .all, now: now, newID: newID)
            try db.execute(
                sql: "UPDATE tidemark_changeset SET merges = ? WHERE seq > ?",
                arguments: [parked.merges + 1, last]
            )
            merged.append(parked.id)
        }
        return merged
    }

    private func hasCandidates() throws -> Bool {
        try Bool.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT EXISTS (SELECT 1 FROM tidemark_conflict WHERE kind = 'refused' AND NOT asks)
                    """
            )
        ) ?? false
    }

    /// The conflict, if nobody has been asked about it and nothing that it builds on is parked.
    private func candidate(_ conflict: Conflict) throws -> Parked? {
        let row = try Row.fetchOne(
            db,
            sql: """
                SELECT id, merges FROM tidemark_conflict AS c WHERE id = ? AND NOT asks
                    AND NOT EXISTS (SELECT 1 FROM json_each(c.after) AS a
                        JOIN tidemark_conflict AS p ON p.id = a.value)
                """,
            arguments: [conflict.id]
        )
        return try row.map { try Parked(id: $0.value("id"), merges: $0.value("merges")) }
    }

    private func ask(_ id: String) throws {
        try db.execute(sql: "UPDATE tidemark_conflict SET asks = 1 WHERE id = ?", arguments: [id])
    }

    /// Merges one conflict, whole or not at all.
    private func merge(_ conflict: Conflict) throws -> Bool {
        guard conflict.reasons.allSatisfy({ Self.mergeable.contains($0.rule) }) else { return false }
        let records = conflict.records.filter { $0.operation != "unchanged" }
        let named = Self.named(by: conflict.reasons)
        // Made again, the changes would meet a record that no function here can decide about.
        guard named.isSubset(of: records.map { "\($0.table) \($0.key)" }) else { return false }
        var decisions: [RecordDecision] = []
        for record in records {
            let isNamed = named.contains("\(record.table) \(record.key)")
            switch try decide(record, isNamed: isNamed) {
            case .write(let decision): decisions.append(decision)
            case .nothing: continue
            case .ask: return false
            }
        }
        do {
            try db.inSavepoint {
                try db.execute(sql: "PRAGMA defer_foreign_keys = ON")
                try RecordDecision.write(decisions, schema: schema, in: db)
                guard !ForeignKeyCheck(db, schema: schema).hasUnresolved else {
                    throw RecordDecision.misfit("a reference points at nothing")
                }
                return .commit
            }
            return true
        } catch let error as TidemarkError where error.code == .constraintViolated {
            // The merged rows do not fit: a person has to look.
            return false
        }
    }

    /// The records that were in the way of a change set, by table and key; one that was refused
    /// along with another names none.
    private static func named(by reasons: [Conflict.Reason]) -> Set<String> {
        let rules = reasons.filter { $0.rule != ConflictRule.predecessor.rawValue }
        return Set(rules.map { "\($0.table) \($0.key ?? "")" })
    }

    private enum Outcome {
        case write(RecordDecision)
        case nothing
        case ask
    }

    /// Decides about a record; one that a reason names was touched, whatever its values say.
    private func decide(_ record: Conflict.Record, isNamed: Bool) throws -> Outcome {
        guard let table = schema.byName[record.table],
            let operation = TidemarkCore.Operation(rawValue: record.operation)
        else { return .ask }
        let rows = RowValues(db: db)
        let theirs = try rows.current(table, key: record.key)
        let base = try record.base.map { try rows.decode($0) }
        let mine = try record.mine.map { try rows.decode($0) } ?? [:]
        let known = Set(table.valueColumns.map(\.name))
        guard known.isSuperset(of: mine.keys) else { return .ask }
        let again = RecordDecision(table: table, key: record.key, operation: operation, values: mine)
        guard let theirs else {
            switch operation {
            case .create: return .write(again)
            case .delete: return .nothing
            case .update: return .ask
            }
        }
        let isUntouched = base.map { $0.allSatisfy { theirs[$0.key] == $0.value } }
        // A record without a base is one that this device made, in a change set before.
        if operation != .create, !isNamed, isUntouched ?? true { return .write(again) }
        guard operation != .delete, let function = functions[table.name] else { return .ask }
        let input = MergeInput(
            table: table.name,
            key: record.key,
            base: base,
            mine: (base ?? [:]).merging(mine) { $1 },
            theirs: theirs
        )
        guard let outcome = function(input) else { return .ask }
        let values = outcome.filter { theirs[$0.key] != nil && theirs[$0.key] != $0.value }
        guard !values.isEmpty else { return .nothing }
        return .write(RecordDecision(table: table, key: record.key, operation: .update, values: values))
    }
}
