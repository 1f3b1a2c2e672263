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

    /// Notes what a change set in the outbox builds on.
    func note(_ seq: Int64) throws {
        if planted(PlantedBug.forgetsDependencies) { return }
        try db.cachedStatement(
            sql: """
                INSERT OR IGNORE INTO tidemark_after (seq, id)
                SELECT ?1, c.id FROM tidemark_outbox AS o JOIN tidemark_changeset AS c ON c.seq = (
                    SELECT max(p.seq) FROM tidemark_outbox AS p
                    WHERE p.tbl = o.tbl AND p.key = o.key AND p.seq < ?1)
                WHERE o.seq = ?1
                """
        ).execute(arguments: [seq])
        let written = try tables(seq, "<> 'delete'")
        for child in schema.tables where written.contains(child.name) {
            for reference in child.references { try noteParents(seq, child, reference) }
        }
        let deleted = try tables(seq, "= 'delete'")
        for parent in schema.tables where deleted.contains(parent.name) {
            for (child, reference) in schema.references(to: parent.name) {
                try noteMoves(seq, parent, child, reference)
            }
        }
    }

    /// The tables in which a change set does something.
    private func tables(_ seq: Int64, _ operation: String) throws -> Set<String> {
        try String.fetchSet(
            db.cachedStatement(
                sql:
                    "SELECT DISTINCT tbl FROM tidemark_outbox WHERE seq = ? AND operation \(operation)"
            ),
            arguments: [seq]
        )
    }

    /// Notes the change sets that created what records of this one refer to.
    ///
    /// A record's key never changes, so a reference that is part of it is as old as the record.
    private func noteParents(
        _ seq: Int64,
        _ child: SyncedTable,
        _ reference: SyncedTable.Reference
    ) throws {
        guard let parent = schema.byName[reference.parent] else { return }
        let name = Referred(child, reference, to: parent)
        let sets = reference.columns.filter { !child.key.contains($0) }.map {
            " OR json_type(attributes, \(Referred.path($0))) IS NOT NULL"
        }
        // A list in place of a join: SQLite looks each value up in it.
        try db.cachedStatement(
            sql: """
                INSERT OR IGNORE INTO tidemark_after (seq, id)
                SELECT ?1, id FROM tidemark_changeset WHERE seq IN (
                    SELECT seq FROM tidemark_outbox
                    WHERE tbl = \(SQLText.literal(parent.name)) AND operation = 'create' AND seq < ?1
                        AND \(name.here { "attributes -> \($0)" }) IN (
                            SELECT \(name.there { "coalesce(attributes -> \($0), before -> \($0))" })
                            FROM tidemark_outbox WHERE seq = ?1 AND tbl = \(SQLText.literal(child.name))
                                AND (operation = 'create'\(sets.joined()))))
                """
        ).execute(arguments: [seq])
    }

    private func noteMoves(
        _ seq: Int64,
        _ parent: SyncedTable,
        _ child: SyncedTable,
        _ reference: SyncedTable.Reference
    ) throws {
        // A key never changes, so a reference that is part of one cannot move.
        let columns = reference.columns.filter { !child.key.contains($0) }
        let name = Referred(child, reference, to: parent)
        let moves = columns.map { " OR json_type(attributes, \(Referred.path($0))) IS NOT NULL" }
        try db.cachedStatement(
            sql: """
                INSERT OR IGNORE INTO tidemark_after (seq, id)
                SELECT ?1, id FROM tidemark_changeset WHERE seq IN (
                    SELECT seq FROM tidemark_outbox
                    WHERE tbl = \(SQLText.literal(child.name)) AND operation <> 'create' AND seq < ?1
                        AND (operation = 'delete'\(moves.joined()))
                        AND \(name.there { "before -> \($0)" }) IN (
                            SELECT \(name.here { "before -> \($0)" }) FROM tidemark_outbox
                            WHERE seq = ?1 AND tbl = \(SQLText.literal(parent.name)) AND operation = 'delete'))
                """
        ).execute(arguments: [seq])
    }
}

/// How a record names another one to which it refers, and how that one is named: as text that is
/// the same on both sides.
private struct Referred {
    private let child: SyncedTable
    private let reference: SyncedTable.Reference
    private let isToKey: Bool

    init(_ child: SyncedTable, _ reference: SyncedTable.Reference, to parent: SyncedTable) {
        (self.child, self.reference) = (child, reference)
        isToKey = reference.parentColumns == parent.key
    }

    static func path(_ column: String) -> String { SQLText.literal("$.\"\(column)\"") }

    /// What a record of the child in the outbox names, given how a value of it is read by its path.
    func there(_ value: (_ path: String) -> String) -> String {
        let parts = reference.columns.map { name in
            child.key.firstIndex(of: name).map { position in
                child.key.count == 1 ? "key" : "(key -> \(position))"
            } ?? "(\(value(Self.path(name))))"
        }
        let list = parts.joined(separator: " || ',' || ")
        return isToKey && parts.count > 1 ? "'[' || \(list) || ']'" : list
    }

    /// What a record of the parent in the outbox is named.
    func here(_ value: (_ path: String) -> String) -> String {
        if isToKey { return "key" }
        return reference.parentColumns.map { "(\(value(Self.path($0))))" }
            .joined(separator: " || ',' || ")
    }
}
