import GRDB
import TidemarkCore
import TidemarkSQL

/// Computes which pending change sets a change set depends on.
///
/// - The latest one that touched the same record.
/// - Those that created records to which it refers.
/// - Those that moved children away from a record that it deletes, or deleted them. Otherwise the
///   deletion would cascade to them.
struct Dependencies {
    let db: Database
    let schema: SyncSchema

    /// Stores the dependencies of all change sets from `first` on.
    func store(from first: Int64) throws {
        if planted(PlantedBug.forgetsDependencies) { return }
        try db.execute(
            cached: """
                INSERT OR IGNORE INTO tidemark_after (seq, id)
                SELECT pending.seq, earlier_set.id
                FROM tidemark_outbox AS pending
                JOIN tidemark_changeset AS earlier_set ON earlier_set.seq = (
                    SELECT max(earlier.seq) FROM tidemark_outbox AS earlier
                    WHERE earlier.tbl = pending.tbl AND earlier.key = pending.key AND earlier.seq < pending.seq)
                WHERE pending.seq >= ?
                """, arguments: [first])
        let tablesWithWrites = try tables(from: first, "<> 'delete'")
        for child in schema.tables where tablesWithWrites.contains(child.name) {
            for reference in child.references { try storeParents(first, child: child, reference: reference) }
        }
        let tablesWithDeletions = try tables(from: first, "= 'delete'")
        for parent in schema.tables where tablesWithDeletions.contains(parent.name) {
            for (child, reference) in schema.references(to: parent.name) {
                try storeMoves(first, parent: parent, child: child, reference: reference)
            }
        }
    }

    /// Returns the first unsent change set before `seq` that refers to a record that `seq` creates.
    func firstReferring(to seq: Int64) throws -> Int64? {
        try schema.tables.flatMap { child in
            try child.references.compactMap { reference -> Int64? in
                guard let parent = schema.byName[reference.parent] else { return nil }
                let name = ReferenceName(child, reference, to: parent)
                return try Int64.fetchOne(
                    db,
                    cached: """
                        SELECT min(child_entry.seq)
                        FROM (
                            SELECT \(name.inParent { "attributes -> \($0)" }) AS name
                            FROM tidemark_outbox
                            WHERE seq = ?1 AND tbl = \(SQLText.literal(parent.name)) AND operation = 'create'
                        ) AS parent_entry
                        JOIN (
                            SELECT seq, \(name.inChild { "coalesce(attributes -> \($0), before -> \($0))" }) AS name
                            FROM tidemark_outbox
                            WHERE seq < ?1 AND tbl = \(SQLText.literal(child.name)) AND operation <> 'delete'
                        ) AS child_entry ON child_entry.name = parent_entry.name
                        JOIN tidemark_changeset AS changeset
                            ON changeset.seq = child_entry.seq AND changeset.wire IS NULL
                        """, arguments: [seq])
            }
        }.min()
    }

    private func tables(from first: Int64, _ operation: String) throws -> Set<String> {
        try String.fetchSet(
            db, cached: "SELECT DISTINCT tbl FROM tidemark_outbox WHERE seq >= ? AND operation \(operation)",
            arguments: [first])
    }

    /// A record's key never changes, so a reference in the key is as old as the record.
    private func storeParents(_ first: Int64, child: SyncedTable, reference: SyncedTable.Reference) throws {
        guard let parent = schema.byName[reference.parent] else { return }
        let name = ReferenceName(child, reference, to: parent)
        let sets = reference.columns.filter { !child.key.contains($0) }.map {
            " OR json_type(attributes, \(ReferenceName.path($0))) IS NOT NULL"
        }
        try store(
            first,
            later: """
                SELECT seq, \(name.inChild { "coalesce(attributes -> \($0), before -> \($0))" }) AS name
                FROM tidemark_outbox
                WHERE seq >= ? AND +tbl = \(SQLText.literal(child.name))
                    AND (operation = 'create'\(sets.joined()))
                """,
            earlier: """
                SELECT seq, \(name.inParent { "attributes -> \($0)" }) AS name
                FROM tidemark_outbox
                WHERE tbl = \(SQLText.literal(parent.name)) AND operation = 'create'
                """, isIndexed: name.isParentKey)
    }

    /// Stores dependencies on change sets that moved a parent's children away or deleted them.
    private func storeMoves(_ first: Int64, parent: SyncedTable, child: SyncedTable, reference: SyncedTable.Reference)
        throws
    {
        // A key never changes, so a reference in the key cannot move.
        let columns = reference.columns.filter { !child.key.contains($0) }
        let name = ReferenceName(child, reference, to: parent)
        let moves = columns.map { " OR json_type(attributes, \(ReferenceName.path($0))) IS NOT NULL" }
        try store(
            first,
            later: """
                SELECT seq, +(\(name.inParent { "before -> \($0)" })) AS name
                FROM tidemark_outbox
                WHERE seq >= ? AND +tbl = \(SQLText.literal(parent.name)) AND operation = 'delete'
                """,
            earlier: """
                SELECT seq, \(name.inChild { "before -> \($0)" }) AS name
                FROM tidemark_outbox
                WHERE tbl = \(SQLText.literal(child.name)) AND operation <> 'create'
                    AND (operation = 'delete'\(moves.joined()))
                """, isIndexed: false)
    }

    /// Stores a dependency for each record of `later` and each earlier record of the same name.
    ///
    /// Without an index on the names, SQLite reads all of `earlier` once. In both queries, a unary `+`
    /// stops SQLite from using an index that covers more than the new rows. It also removes a column's
    /// affinity from a name, which would prevent the lookup by index.
    private func store(_ first: Int64, later: String, earlier: String, isIndexed: Bool) throws {
        try db.execute(
            cached: """
                WITH later AS MATERIALIZED (SELECT DISTINCT * FROM (\(later))),
                    earlier AS \(isIndexed ? "NOT MATERIALIZED" : "MATERIALIZED") (\(earlier))
                INSERT OR IGNORE INTO tidemark_after (seq, id)
                SELECT later.seq, changeset.id
                FROM later
                CROSS JOIN earlier ON earlier.name = later.name AND earlier.seq < later.seq
                CROSS JOIN tidemark_changeset AS changeset ON changeset.seq = earlier.seq
                """, arguments: [first])
    }
}

/// SQL for the name of a referenced record, which is the same text in the child and in the parent.
private struct ReferenceName {
    private let child: SyncedTable
    private let reference: SyncedTable.Reference
    let isParentKey: Bool

    init(_ child: SyncedTable, _ reference: SyncedTable.Reference, to parent: SyncedTable) {
        self.child = child
        self.reference = reference
        isParentKey = reference.parentColumns == parent.key
    }

    static func path(_ column: String) -> String { SQLText.literal(MemberSQL.path(column)) }

    /// Returns SQL for the name in the child's outbox row; `value` makes SQL that reads a JSON path.
    func inChild(_ value: (_ path: String) -> String) -> String {
        let parts = reference.columns.map { name in
            child.key.firstIndex(of: name).map { position in child.key.count == 1 ? "+key" : "(key -> \(position))" }
                ?? "(\(value(Self.path(name))))"
        }
        let list = parts.joined(separator: " || ',' || ")
        return isParentKey && parts.count > 1 ? "'[' || \(list) || ']'" : list
    }

    /// Returns SQL for the name in the parent's outbox row.
    func inParent(_ value: (_ path: String) -> String) -> String {
        if isParentKey { return "key" }
        return reference.parentColumns.map { "(\(value(Self.path($0))))" }.joined(separator: " || ',' || ")
    }
}
