import GRDB
import TidemarkCore
import TidemarkSQLite

extension Conflict {
    /// Records that stand in the way of a deletion, because they refer to the record.
    public struct Referrers: Hashable, Sendable, Codable {
        /// The table of the records that refer.
        public let table: String
        /// The columns that refer.
        public let columns: [String]
        /// The keys of the records that refer, in canonical JSON.
        public let keys: [String]
        /// The table of the record that was to be deleted.
        public let parent: String
        /// Its key in canonical JSON.
        public let parentKey: String
    }

    /// Whether the conflict is, among others, about a record that others still refer to.
    private var isReferenced: Bool { reasons.contains { $0.rule == ConflictRule.referenced.rawValue } }

    /// Reads the parked conflicts, oldest first, each with the records that refer to what it wanted
    /// to delete.
    ///
    /// The server names the record that is referred to. Those that refer to it are looked up in
    /// the tables of this file, which have them since the refusal was taken in.
    static func withReferrers(_ db: Database, schema: SyncSchema) throws -> [Conflict] {
        var conflicts = try all(db)
        guard conflicts.contains(where: \.isReferenced) else { return conflicts }
        try EngineConnection.addFunctions(to: db)
        for index in conflicts.indices where conflicts[index].isReferenced {
            let id = conflicts[index].id
            conflicts[index].referrers = try schema.tables.flatMap { parent in
                try schema.references(to: parent.name).filter {
                    [.noAction, .restrict].contains($0.reference.onDelete)
                }.flatMap { try referrers(id, parent, $0.child, $0.reference, in: db) }
            }
        }
        return conflicts
    }

    /// The records of one table that refer by one reference to what a conflict wanted to delete.
    ///
    /// One that the same change set deletes, or whose reference it changes, is not in the way.
    private static func referrers(
        _ id: String,
        _ parent: SyncedTable,
        _ child: SyncedTable,
        _ reference: SyncedTable.Reference,
        in db: Database
    ) throws -> [Referrers] {
        let columns = zip(reference.columns, reference.parentColumns).map {
            "c.\(SQLText.name($0)) = p.\(SQLText.name($1))"
        }
        let names = reference.columns.map { SQLText.literal($0) }.joined(separator: ", ")
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT r.key AS parent, \(RowJSON.key(child, alias: "c.")) AS child
                FROM tidemark_conflict_record AS r
                JOIN main.\(SQLText.name(parent.name)) AS p ON \(KeySQL.match(parent, key: "r.key", alias: "p."))
                JOIN main.\(SQLText.name(child.name)) AS c ON \(columns.joined(separator: " AND "))
                WHERE r.id = ?1 AND r.tbl = ?2 AND r.operation = 'delete' AND NOT EXISTS (
                    SELECT 1 FROM tidemark_conflict_record AS o
                    WHERE o.id = ?1 AND o.tbl = ?3 AND o.key = \(RowJSON.key(child, alias: "c."))
                        AND (o.operation = 'delete' OR EXISTS (
                            SELECT 1 FROM json_each(o.mine) AS m WHERE m.key IN (\(names)))))
                ORDER BY length(parent), parent, length(child), child
                """,
            arguments: [id, parent.name, child.name]
        )
        var keys: [(parent: String, children: [String])] = []
        for row in rows {
            let parent: String = try row.value("parent")
            let child: String = try row.value("child")
            if keys.last?.parent != parent { keys.append((parent, [])) }
            keys[keys.count - 1].children.append(child)
        }
        return keys.map {
            Referrers(
                table: child.name,
                columns: reference.columns,
                keys: $0.children,
                parent: parent.name,
                parentKey: $0.parent
            )
        }
    }
}
