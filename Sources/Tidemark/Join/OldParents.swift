import GRDB
import TidemarkCore
import TidemarkSQL

/// The records that pending or kept changes refer to, as they were in the old history.
///
/// In another history, the same foreign key may refer to another record. The device offers a change
/// there only if the record that it refers to is unchanged.
struct OldParents {
    let db: Database
    let schema: SyncSchema

    /// Stores the confirmed records, before the caller replaces the rows.
    init(of schema: SyncSchema, in db: Database) throws {
        self.db = db
        self.schema = schema
        try db.execute(
            sql: """
                CREATE TEMP TABLE IF NOT EXISTS tidemark_old_parent (
                    tbl TEXT, key TEXT, image TEXT, PRIMARY KEY (tbl, key)
                ) WITHOUT ROWID;
                DELETE FROM temp.tidemark_old_parent;
                """)
        for parent in schema.tables where parent.keyKind == .integer {
            let references = referencing(parent).flatMap { table, column in
                ["tidemark_outbox", "tidemark_kept_record"].map { holder in
                    """
                    SELECT change.attributes ->> \(SQLText.literal(MemberSQL.path(column))) AS id
                    FROM \(holder) AS change
                    WHERE change.tbl = \(SQLText.literal(table.name))
                    """
                }
            }
            guard !references.isEmpty else { continue }
            let current = RowJSON.current(parent, key: "reference.id")
            try db.execute(
                sql: """
                    INSERT OR IGNORE INTO temp.tidemark_old_parent
                    SELECT ?1, CAST(reference.id AS TEXT),
                        CASE WHEN base_row.key IS NULL THEN (\(current)) ELSE base_row.image END
                    FROM (\(references.joined(separator: " UNION "))) AS reference
                    LEFT JOIN tidemark_base AS base_row
                        ON base_row.tbl = ?1 AND base_row.key = CAST(reference.id AS TEXT)
                    WHERE typeof(reference.id) = 'integer'
                        AND reference.id BETWEEN \(parent.lowestID) AND \(TemporaryID.permanentMax)
                    """, arguments: [parent.name])
        }
    }

    /// Returns the pending change sets whose referenced record has changed or is gone, with that record's key.
    ///
    /// The id of one that is gone may become another record's in the same request.
    func changeSetsWithChangedParent(in parent: SyncedTable) throws -> [Row] {
        let references = referencing(parent).map { table, column in
            """
            SELECT pending.seq, pending.attributes ->> \(SQLText.literal(MemberSQL.path(column))) AS id
            FROM tidemark_outbox AS pending
            WHERE pending.tbl = \(SQLText.literal(table.name))
            """
        }
        guard parent.keyKind == .integer, !references.isEmpty else { return [] }
        let current = RowJSON.current(parent, key: "old_parent.key")
        return try Row.fetchAll(
            db,
            sql: """
                SELECT changeset.id, old_parent.key
                FROM (\(references.joined(separator: " UNION "))) AS reference
                JOIN temp.tidemark_old_parent AS old_parent
                    ON old_parent.tbl = ?1 AND old_parent.key = CAST(reference.id AS TEXT)
                JOIN tidemark_changeset AS changeset ON changeset.seq = reference.seq
                WHERE old_parent.image IS NOT NULL AND old_parent.image IS NOT (\(current))
                ORDER BY changeset.seq
                """, arguments: [parent.name])
    }

    /// Returns the columns that refer to a table's ids and are not part of a key.
    private func referencing(_ parent: SyncedTable) -> [(SyncedTable, String)] {
        schema.tables.flatMap { table in
            schema.integerReferences(of: table).filter {
                $0.parent == parent.name && !table.key.contains($0.column)
            }.map { (table, $0.column) }
        }
    }
}
