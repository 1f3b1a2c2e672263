import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

extension Conflict {
    /// Records that prevent a deletion because they refer to the record.
    public struct Referrers: Hashable, Sendable, Codable {
        /// The table of the referring records.
        public let table: String
        /// The referring columns.
        public let columns: [String]
        /// The keys of the referring records, in canonical JSON.
        public let keys: [String]
        /// The table of the record that the change set deletes.
        public let parent: String
        /// Its key in canonical JSON.
        public let parentKey: String
    }

    /// A record that the conflict's change set does not name, but that a retry would delete or change.
    ///
    /// It refers to a record that the retry deletes, with `ON DELETE CASCADE`, `SET NULL` or `SET DEFAULT`.
    public struct TakenAlong: Hashable, Sendable, Codable {
        /// The table.
        public let table: String
        /// The key in canonical JSON.
        public let key: String
        /// The referring columns.
        public let columns: [String]
        /// The table of the record that it refers to.
        public let parent: String
        /// Whether the record would be deleted; otherwise the referring columns get another value.
        public let isDeleted: Bool
    }
}

/// Finds the records that refer to deleted ones: they prevent the deletion, or are deleted or changed by it.
struct ReferringRecords {
    let db: Database
    let schema: SyncSchema

    /// Returns the records that prevent the deletions of a conflict.
    ///
    /// The server names only the deleted record. The device finds the referring records in its own
    /// tables, which have them since it applied the refusal. Records that the same change set deletes, or whose
    /// reference it changes, prevent nothing. The caller has added the engine's functions.
    func referrers(of conflict: Conflict) throws -> [Conflict.Referrers] {
        guard conflict.reasons.contains(where: { $0.rule == ConflictRule.referenced.rawValue }) else { return [] }
        let own = Dictionary(uniqueKeysWithValues: conflict.records.map { ($0.name, $0) })
        let isDeletion = { (record: Conflict.Record) in record.operation == TidemarkCore.Operation.delete.rawValue }
        let deleted = Dictionary(grouping: conflict.records.filter(isDeletion), by: \.table)
        var referrers: [Conflict.Referrers] = []
        for parent in schema.tables {
            for (child, reference) in schema.references(to: parent.name) where !reference.onDelete.takesAlong {
                for record in deleted[parent.name, default: []] {
                    let keys = try children(of: [record.key], in: parent, child, by: reference).filter { key in
                        guard let sibling = own[RecordName(child.name, RecordKey(json: key))] else { return true }
                        return try !isDeletion(sibling)
                            && RecordChanges(json: sibling.mine).columns.isDisjoint(with: reference.columns)
                    }
                    guard !keys.isEmpty else { continue }
                    referrers.append(
                        Conflict.Referrers(
                            table: child.name, columns: reference.columns, keys: keys, parent: parent.name,
                            parentKey: record.key))
                }
            }
        }
        return referrers
    }

    /// Returns what a retry of a conflict takes along that the conflict does not name.
    ///
    /// The author of a parked deletion saw the records that were in the file then: these have changes of their own in
    /// the change set, or the refusal names them.
    func takenAlong(by conflict: Conflict) throws -> [Conflict.TakenAlong] {
        guard conflict.kind == .refused else { return [] }
        let deleted = conflict.records.filter { $0.operation == TidemarkCore.Operation.delete.rawValue }
        guard !deleted.isEmpty else { return [] }
        return try takenAlong(
            deleting: Dictionary(grouping: deleted, by: \.table).mapValues { $0.map(\.key) },
            besides: Set(conflict.records.map(\.name)))
    }

    /// Returns what decisions take along, without the records of `named`.
    func takenAlong(by decisions: [RecordDecision], besides named: Set<RecordName>) throws -> [Conflict.TakenAlong] {
        let deleted = decisions.filter { $0.operation == .delete }
        guard !deleted.isEmpty else { return [] }
        return try takenAlong(
            deleting: Dictionary(grouping: deleted, by: \.table.name).mapValues { $0.map(\.key) }, besides: named)
    }

    private func takenAlong(deleting keys: [String: [String]], besides named: Set<RecordName>) throws
        -> [Conflict.TakenAlong]
    {
        var known = named
        var found: [Conflict.TakenAlong] = []
        var next = keys
        // Each step finds the children of the records that the last one has found.
        while !next.isEmpty {
            let parents = next
            next = [:]
            for parent in schema.tables {
                guard let keys = parents[parent.name] else { continue }
                for (child, reference) in schema.references(to: parent.name) where reference.onDelete.takesAlong {
                    for key in try children(of: keys, in: parent, child, by: reference) {
                        guard known.insert(RecordName(child.name, RecordKey(json: key))).inserted else { continue }
                        let isDeleted = reference.onDelete == .cascade
                        found.append(
                            Conflict.TakenAlong(
                                table: child.name, key: key, columns: reference.columns, parent: parent.name,
                                isDeleted: isDeleted))
                        if isDeleted { next[child.name, default: []].append(key) }
                    }
                }
            }
        }
        return found
    }

    /// Returns the keys of the records that refer to others.
    private func children(
        of keys: [String], in parent: SyncedTable, _ child: SyncedTable, by reference: SyncedTable.Reference
    ) throws -> [String] {
        let columns = zip(reference.columns, reference.parentColumns).map {
            "child_row.\(SQLText.name($0)) = parent_row.\(SQLText.name($1))"
        }
        return try String.fetchAll(
            db,
            cached: """
                SELECT \(RowJSON.key(child, alias: "child_row.")) AS key
                FROM json_each(?) AS deleted
                CROSS JOIN main.\(SQLText.name(parent.name)) AS parent_row
                    ON \(KeySQL.match(parent, key: "deleted.value", alias: "parent_row."))
                CROSS JOIN main.\(SQLText.name(child.name)) AS child_row ON \(columns.joined(separator: " AND "))
                ORDER BY length(key), key
                """, arguments: [String(decoding: try JSONEncoder().encode(keys), as: UTF8.self)])
    }
}

extension SyncedTable.Reference.Action {
    fileprivate var takesAlong: Bool {
        switch self {
        case .cascade, .setNull, .setDefault: true
        case .noAction, .restrict: false
        }
    }
}
