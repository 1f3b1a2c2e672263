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
}

extension TakenAlong {
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
}
