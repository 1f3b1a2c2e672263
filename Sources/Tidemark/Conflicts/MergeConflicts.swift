import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// Resolves parked conflicts by the app's merge functions.
///
/// The device writes a function's result like an edit of the app. It becomes a new change set, based
/// on the server's current rows. If the server refuses it, the device merges again, a bounded number
/// of times. After that, or if a function returns nil, the device asks a person.
///
/// The device merges a conflict only if it can decide all records. It repeats changes to records that
/// no other author touched; the others need a function for their table. A person decides about refused
/// deletions, missing records and conflicts with records outside the change set.
struct MergeConflicts {
    let round: RoundContext
    let merges: [String: any RecordMerging]
    private var db: Database { round.db }
    private var schema: SyncSchema { round.schema }

    private static let mergeable: Set<String> = [
        ConflictRule.changed.rawValue, ConflictRule.exists.rawValue, ConflictRule.predecessor.rawValue,
    ]

    /// Merges all conflicts that the functions can decide, in the caller's transaction; returns their ids.
    func run() throws -> [String] {
        guard !merges.isEmpty, try hasCandidates() else { return [] }
        try EngineConnection.prepare(db, schema: schema)
        try round.drain()
        var mergedIDs: [String] = []
        // A resolved conflict may unblock its dependents, so `merges(of:)` reads the current state.
        for conflict in try Conflict.all(db) where conflict.kind == .refused {
            guard let merges = try merges(of: conflict.id) else { continue }
            guard merges < round.limits.mergesMax, try merge(conflict) else {
                try db.execute(sql: "UPDATE tidemark_conflict SET asks = 1 WHERE id = ?", arguments: [conflict.id])
                continue
            }
            try ResolveConflict.forget(conflict.id, in: db)
            let last = try Int64.fetchOne(db, sql: "SELECT max(seq) FROM tidemark_changeset") ?? 0
            try round.drain(.all)
            try db.execute(
                sql: "UPDATE tidemark_changeset SET merges = ? WHERE seq > ?", arguments: [merges + 1, last])
            mergedIDs.append(conflict.id)
        }
        return mergedIDs
    }

    private func hasCandidates() throws -> Bool {
        try Bool.fetchOne(
            db, cached: "SELECT EXISTS (SELECT 1 FROM tidemark_conflict WHERE kind = 'refused' AND NOT asks)") ?? false
    }

    /// Returns how often a conflict was merged; nil unless it waits for a merge function and for no other conflict.
    private func merges(of conflict: String) throws -> Int? {
        try Int.fetchOne(
            db,
            sql: """
                SELECT merges
                FROM tidemark_conflict AS parked_set
                WHERE id = ? AND NOT asks AND NOT EXISTS (
                    SELECT 1 FROM json_each(parked_set.after) AS after_id
                    JOIN tidemark_conflict AS predecessor ON predecessor.id = after_id.value)
                """, arguments: [conflict])
    }

    /// Merges one conflict, whole or not at all.
    private func merge(_ conflict: Conflict) throws -> Bool {
        guard conflict.reasons.allSatisfy({ Self.mergeable.contains($0.rule) }) else { return false }
        let records = conflict.records.filter { $0.operation != "unchanged" }
        let contested = Self.contestedRecords(conflict.reasons)
        // A reason names a record outside the change set, about which no function can decide.
        guard contested.isSubset(of: records.map { "\($0.table) \($0.key)" }) else { return false }
        var decisions: [RecordDecision] = []
        for record in records {
            let isContested = contested.contains("\(record.table) \(record.key)")
            switch try decide(record, isContested: isContested) {
            case .write(let decision): decisions.append(decision)
            case .nothing: continue
            case .ask: return false
            }
        }
        // No function has seen the children that a deletion would delete.
        let named = Set(conflict.records.map(\.name))
        let along = try ReferringRecords(db: db, schema: schema).takenAlong(by: decisions, besides: named)
        guard along.isEmpty else { return false }
        do {
            try RecordDecision.write(decisions, schema: schema, in: db)
            try ResolveConflict.rebaseDependents(of: conflict.id, on: decisions, in: db)
            return true
        } catch let error as TidemarkError where error.code == .constraintViolated {
            // The merged rows do not fit, so a person decides.
            return false
        }
    }

    /// Returns the records that the reasons name, by table and key, except for reason `predecessor`.
    private static func contestedRecords(_ reasons: [Conflict.Reason]) -> Set<String> {
        let rules = reasons.filter { $0.rule != ConflictRule.predecessor.rawValue }
        return Set(rules.map { "\($0.table) \($0.key ?? "")" })
    }

    private enum Outcome {
        case write(RecordDecision)
        case nothing, ask
    }

    /// Returns the values of a record's changes over a row; nil if they cannot be added to it.
    private func values(_ changes: RecordChanges, over row: [String: DatabaseValue]) throws -> [String: DatabaseValue]?
    {
        do { return try changes.values(over: row) } catch let error as TidemarkError
            where error.code == .constraintViolated
        { return nil }
    }

    /// Decides about a record; a contested record counts as changed even if its values equal the base.
    private func decide(_ record: Conflict.Record, isContested: Bool) throws -> Outcome {
        guard let table = schema.byName[record.table],
            let operation = TidemarkCore.Operation(rawValue: record.operation)
        else { return .ask }
        let rows = CurrentRows(db: db)
        let theirs = try rows.current(table, key: record.key)
        var base = try record.base.map { try RecordChanges(json: $0).values }
        let changes = try RecordChanges(json: record.mine)
        let columns = Set(table.valueColumns.map(\.name))
        guard columns.isSuperset(of: changes.columns) else { return .ask }
        guard let mine = try values(changes, over: theirs ?? base ?? [:]) else { return .ask }
        let repetition = RecordDecision(table: table, key: record.key, operation: operation, values: mine)
        guard let theirs else {
            switch operation {
            case .create: return .write(repetition)
            case .delete: return .nothing
            case .update: return .ask
            }
        }
        let images = try ThreeWay(
            base: RecordImage(stored: record.base), theirs: CurrentRows(db: db).image(table, key: record.key))
        // A record without a base was created by an earlier change set of this device.
        if operation != .create, !isContested, images.base == nil || images.isUntouched { return .write(repetition) }
        guard operation != .delete, let merge = merges[table.name] else { return .ask }
        // A column with a delta is as the server has it, plus the delta: no function can lose a part of it.
        for column in changes.deltas.keys { base?[column] = theirs[column] }
        let input = MergeInput(
            table: table.name, key: record.key, base: base, mine: (base ?? [:]).merging(mine) { $1 }, theirs: theirs,
            keyColumns: try CanonicalJSON.columns(table.key, of: record.key))
        guard let outcome = merge.merge(input) else { return .ask }
        let values = outcome.filter { theirs[$0.key] != nil && theirs[$0.key] != $0.value }
        guard !values.isEmpty else { return .nothing }
        return .write(RecordDecision(table: table, key: record.key, operation: .update, values: values))
    }
}
