import GRDB
import TidemarkCore
import TidemarkSQLite

/// The records that waiting or kept changes refer to, as the old history had them.
///
/// A foreign key is a number, and in another history it may be somebody else's record. A change is
/// only offered there if what it refers to is still the same.
struct OldParents {
    let db: Database
    let schema: SyncSchema

    /// Notes the records, before the rows are replaced.
    ///
    /// What the server had confirmed counts, not what waits on top of it.
    init(noting schema: SyncSchema, in db: Database) throws {
        self.db = db
        self.schema = schema
        try db.execute(
            sql: """
                CREATE TEMP TABLE IF NOT EXISTS tidemark_old_parent (
                    tbl TEXT, key TEXT, image TEXT, PRIMARY KEY (tbl, key)
                ) WITHOUT ROWID;
                DELETE FROM temp.tidemark_old_parent;
                """
        )
        for parent in schema.tables where parent.keyKind == .integer {
            let references = referencing(parent).flatMap { table, column in
                ["tidemark_outbox", "tidemark_kept_record"].map { holder in
                    """
                    SELECT o.attributes ->> \(SQLText.literal("$.\"\(column)\"")) AS id
                    FROM \(holder) AS o WHERE o.tbl = \(SQLText.literal(table.name))
                    """
                }
            }
            guard !references.isEmpty else { continue }
            let current = Images.current(parent, key: "r.id")
            try db.execute(
                sql: """
                    INSERT OR IGNORE INTO temp.tidemark_old_parent
                    SELECT ?1, CAST(r.id AS TEXT), CASE WHEN b.key IS NULL THEN (\(current)) ELSE b.image END
                    FROM (\(references.joined(separator: " UNION "))) AS r
                    LEFT JOIN tidemark_base AS b ON b.tbl = ?1 AND b.key = CAST(r.id AS TEXT)
                    WHERE typeof(r.id) = 'integer' AND r.id BETWEEN 0 AND \(TemporaryID.permanentMax)
                    """,
                arguments: [parent.name]
            )
        }
    }

    /// The waiting changes that refer to a record that is another one now, with that record.
    func changed(of parent: SyncedTable) throws -> [Row] {
        let references = referencing(parent).map { table, column in
            """
            SELECT o.seq, o.attributes ->> \(SQLText.literal("$.\"\(column)\"")) AS id
            FROM tidemark_outbox AS o WHERE o.tbl = \(SQLText.literal(table.name))
            """
        }
        guard parent.keyKind == .integer, !references.isEmpty else { return [] }
        let current = Images.current(parent, key: "p.key")
        return try Row.fetchAll(
            db,
            sql: """
                SELECT c.id, p.key FROM (\(references.joined(separator: " UNION "))) AS r
                JOIN temp.tidemark_old_parent AS p ON p.tbl = ?1 AND p.key = CAST(r.id AS TEXT)
                JOIN tidemark_changeset AS c ON c.seq = r.seq
                WHERE p.image IS NOT NULL AND p.image <> (\(current)) ORDER BY c.seq
                """,
            arguments: [parent.name]
        )
    }

    /// The columns that refer to a table's ids and are no part of a key.
    private func referencing(_ parent: SyncedTable) -> [(SyncedTable, String)] {
        schema.tables.flatMap { table in
            Catalog.integerReferences(of: table, in: schema).filter {
                $0.parent == parent.name && !table.key.contains($0.column)
            }.map { (table, $0.column) }
        }
    }
}
