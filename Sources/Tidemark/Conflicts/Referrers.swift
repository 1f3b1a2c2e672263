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

    private var isReferenced: Bool { reasons.contains { $0.rule == ConflictRule.referenced.rawValue } }

    /// Finds the records that prevent the deletions of conflicts.
    ///
    /// The server names only the deleted record. The device finds the referring records in its own
    /// tables, which have them since it applied the refusal. The caller has added the engine's functions.
    static func findReferrers(of conflicts: inout [Conflict], schema: SyncSchema, in db: Database) throws {
        for index in conflicts.indices where conflicts[index].isReferenced {
            let id = conflicts[index].id
            conflicts[index].referrers = try schema.tables.flatMap { parent in
                try schema.references(to: parent.name).filter {
                    [.noAction, .restrict].contains($0.reference.onDelete)
                }.flatMap { try referrers(id, parent: parent, child: $0.child, reference: $0.reference, in: db) }
            }
        }
    }

    /// Ignores records that the same change set deletes, or whose reference it changes: they prevent nothing.
    private static func referrers(
        _ id: String, parent: SyncedTable, child: SyncedTable, reference: SyncedTable.Reference, in db: Database
    ) throws -> [Referrers] {
        let columns = zip(reference.columns, reference.parentColumns).map {
            "child_row.\(SQLText.name($0)) = parent_row.\(SQLText.name($1))"
        }
        let names = reference.columns.map { SQLText.literal($0) }.joined(separator: ", ")
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT parked.key AS parent, \(RowJSON.key(child, alias: "child_row.")) AS child
                FROM tidemark_conflict_record AS parked
                JOIN main.\(SQLText.name(parent.name)) AS parent_row
                    ON \(KeySQL.match(parent, key: "parked.key", alias: "parent_row."))
                JOIN main.\(SQLText.name(child.name)) AS child_row ON \(columns.joined(separator: " AND "))
                WHERE parked.id = ?1 AND parked.tbl = ?2 AND parked.operation = 'delete' AND NOT EXISTS (
                    SELECT 1 FROM tidemark_conflict_record AS sibling
                    WHERE sibling.id = ?1 AND sibling.tbl = ?3
                        AND sibling.key = \(RowJSON.key(child, alias: "child_row."))
                        AND (sibling.operation = 'delete' OR EXISTS (
                            SELECT 1 FROM json_each(sibling.mine) AS cell WHERE \(MemberSQL.name(of: "cell.key")) IN (\(names)))))
                ORDER BY length(parent), parent, length(child), child
                """, arguments: [id, parent.name, child.name])
        var keys: [(parent: String, children: [String])] = []
        for row in rows {
            let parent: String = try row.value("parent")
            let child: String = try row.value("child")
            if keys.last?.parent != parent { keys.append((parent, [])) }
            keys[keys.count - 1].children.append(child)
        }
        return keys.map {
            Referrers(
                table: child.name, columns: reference.columns, keys: $0.children, parent: parent.name,
                parentKey: $0.parent)
        }
    }
}
