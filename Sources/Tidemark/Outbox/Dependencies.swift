import GRDB
import TidemarkCore
import TidemarkSQLite

/// Which waiting change sets one builds on: without them it would mean something else, or nothing.
///
/// - the latest one that touched the same record;
/// - those that created records to which it refers;
/// - those that moved records away from one that it deletes, or deleted them: without that, the
///   deletion would take them along.
struct Dependencies {
    let db: Database
    let schema: SyncSchema

    /// Notes what the change sets from `first` on build on, all of them at once.
    func note(from first: Int64) throws {
        if planted(PlantedBug.forgetsDependencies) { return }
        try db.cachedStatement(
            sql: """
                INSERT OR IGNORE INTO tidemark_after (seq, id)
                SELECT o.seq, c.id FROM tidemark_outbox AS o JOIN tidemark_changeset AS c ON c.seq = (
                    SELECT max(p.seq) FROM tidemark_outbox AS p
                    WHERE p.tbl = o.tbl AND p.key = o.key AND p.seq < o.seq)
                WHERE o.seq >= ?
                """
        ).execute(arguments: [first])
        let written = try tables(from: first, "<> 'delete'")
        for child in schema.tables where written.contains(child.name) {
            for reference in child.references { try noteParents(first, child, reference) }
        }
        let deleted = try tables(from: first, "= 'delete'")
        for parent in schema.tables where deleted.contains(parent.name) {
            for (child, reference) in schema.references(to: parent.name) {
                try noteMoves(first, parent, child, reference)
            }
        }
    }

    /// The tables in which change sets do something.
    private func tables(from first: Int64, _ operation: String) throws -> Set<String> {
        try String.fetchSet(
            db.cachedStatement(
                sql: "SELECT DISTINCT tbl FROM tidemark_outbox WHERE seq >= ? AND operation \(operation)"
            ),
            arguments: [first]
        )
    }

    /// Notes the change sets that created what records of a child refer to.
    ///
    /// A record's key never changes, so a reference that is part of it is as old as the record.
    private func noteParents(_ first: Int64, _ child: SyncedTable, _ reference: SyncedTable.Reference) throws {
        guard let parent = schema.byName[reference.parent] else { return }
        let name = Referred(child, reference, to: parent)
        let sets = reference.columns.filter { !child.key.contains($0) }.map {
            " OR json_type(attributes, \(Referred.path($0))) IS NOT NULL"
        }
        try note(
            first,
            """
            SELECT seq, \(name.there { "coalesce(attributes -> \($0), before -> \($0))" }) AS name
            FROM tidemark_outbox WHERE seq >= ? AND +tbl = \(SQLText.literal(child.name))
                AND (operation = 'create'\(sets.joined()))
            """,
            """
            SELECT seq, \(name.here { "attributes -> \($0)" }) AS name FROM tidemark_outbox
            WHERE tbl = \(SQLText.literal(parent.name)) AND operation = 'create'
            """,
            isIndexed: name.isKeyHere
        )
    }

    /// Notes the change sets that moved children away from records of a parent, or deleted them.
    private func noteMoves(
        _ first: Int64,
        _ parent: SyncedTable,
        _ child: SyncedTable,
        _ reference: SyncedTable.Reference
    ) throws {
        // A key never changes, so a reference that is part of one cannot move.
        let columns = reference.columns.filter { !child.key.contains($0) }
        let name = Referred(child, reference, to: parent)
        let moves = columns.map { " OR json_type(attributes, \(Referred.path($0))) IS NOT NULL" }
        try note(
            first,
            """
            SELECT seq, +(\(name.here { "before -> \($0)" })) AS name FROM tidemark_outbox
            WHERE seq >= ? AND +tbl = \(SQLText.literal(parent.name)) AND operation = 'delete'
            """,
            """
            SELECT seq, \(name.there { "before -> \($0)" }) AS name FROM tidemark_outbox
            WHERE tbl = \(SQLText.literal(child.name)) AND operation <> 'create'
                AND (operation = 'delete'\(moves.joined()))
            """,
            isIndexed: false
        )
    }

    // For each record of a query, notes the change sets of the earlier ones of the same name. Where
    // these are not indexed by name, all of them are read once. A `+` keeps SQLite from an index
    // that is longer than what is new, and a name from having a column's affinity: else names would
    // not be found by an index.
    private func note(_ first: Int64, _ later: String, _ earlier: String, isIndexed: Bool) throws {
        try db.cachedStatement(
            sql: """
                WITH later AS MATERIALIZED (SELECT DISTINCT * FROM (\(later))),
                    earlier AS \(isIndexed ? "NOT MATERIALIZED" : "MATERIALIZED") (\(earlier))
                INSERT OR IGNORE INTO tidemark_after (seq, id)
                SELECT l.seq, c.id FROM later AS l
                    CROSS JOIN earlier AS e ON e.name = l.name AND e.seq < l.seq
                    CROSS JOIN tidemark_changeset AS c ON c.seq = e.seq
                """
        ).execute(arguments: [first])
    }
}

/// How a record names another one to which it refers, and how that one is named: as text that is
/// the same on both sides.
private struct Referred {
    private let child: SyncedTable
    private let reference: SyncedTable.Reference
    /// Whether a record of the parent is named by its key.
    let isKeyHere: Bool

    init(_ child: SyncedTable, _ reference: SyncedTable.Reference, to parent: SyncedTable) {
        self.child = child
        self.reference = reference
        isKeyHere = reference.parentColumns == parent.key
    }

    static func path(_ column: String) -> String { SQLText.literal("$.\"\(column)\"") }

    /// What a record of the child in the outbox names, given how a value of it is read by its path.
    func there(_ value: (_ path: String) -> String) -> String {
        let parts = reference.columns.map { name in
            child.key.firstIndex(of: name).map { position in child.key.count == 1 ? "+key" : "(key -> \(position))" }
                ?? "(\(value(Self.path(name))))"
        }
        let list = parts.joined(separator: " || ',' || ")
        return isKeyHere && parts.count > 1 ? "'[' || \(list) || ']'" : list
    }

    /// What a record of the parent in the outbox is named.
    func here(_ value: (_ path: String) -> String) -> String {
        if isKeyHere { return "key" }
        return reference.parentColumns.map { "(\(value(Self.path($0))))" }.joined(separator: " || ',' || ")
    }
}
