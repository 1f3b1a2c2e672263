import GRDB
import TidemarkCore
import TidemarkSQLite

/// Takes waiting changes out of the tables and puts them back, so that the server's changes meet
/// the server's rows.
struct PendingChanges {
    let db: Database
    let schema: SyncSchema

    private static let rewindOrd = -2
    private static let replayOrd = -3

    /// Whether anything waits.
    private var isEmpty: Bool {
        get throws {
            try Bool.fetchOne(
                db.cachedStatement(
                    sql: """
                        SELECT NOT EXISTS (SELECT 1 FROM tidemark_base)
                            AND NOT EXISTS (SELECT 1 FROM tidemark_outbox)
                        """
                )
            ) ?? true
        }
    }

    /// Puts every record with waiting changes back to what the server confirmed.
    func rewind() throws {
        try HeldColumns(db: db, schema: schema).save(all: false)
        guard try !isEmpty, !planted(PlantedBug.appliesOnTopOfEdits) else { return }
        try StagedImages.stage(
            """
            SELECT tbl, key, iif(image IS NULL, 'delete', 'create') AS operation, image AS attributes
            FROM tidemark_base
            """,
            ord: Self.rewindOrd,
            in: db
        )
        try RecordWriter(db, schema: schema, existing: .overwrite).write(ord: Self.rewindOrd)
    }

    /// Notes what the server has confirmed by now, for the records that still have waiting changes.
    func refreshBase() throws {
        guard try !isEmpty else { return }
        try Outbox.forgetBases(in: db)
        try db.cachedStatement(
            sql: "INSERT OR IGNORE INTO tidemark_base SELECT DISTINCT tbl, key, NULL FROM tidemark_outbox"
        ).execute()
        for table in schema.tables {
            let object = RowJSON.object(table.valueColumns.map(\.name), prefix: "t.")
            try db.cachedStatement(
                sql: """
                    UPDATE tidemark_base SET image = (
                        SELECT \(object) FROM main.\(SQLText.name(table.name)) AS t
                        WHERE \(KeySQL.match(table, key: "tidemark_base.key", alias: "t.")))
                    WHERE tbl = ?
                    """
            ).execute(arguments: [table.name])
        }
    }

    /// Puts the waiting changes on top of the tables again.
    ///
    /// A change set that no longer fits, for instance because somebody took its unique value or
    /// deleted what it refers to, stays in the outbox without being shown; the server's verdict
    /// will make it a conflict.
    func replay() throws {
        if try !isEmpty, !planted(PlantedBug.forgetsToReplay) { try replayAll() }
        try HeldColumns(db: db, schema: schema).restore()
    }

    private func replayAll() throws {
        let sets = try Int64.fetchAll(db.cachedStatement(sql: "SELECT seq FROM tidemark_changeset ORDER BY seq"))
        do {
            try db.inSavepoint {
                try replay(sets, ord: Self.replayOrd)
                return .commit
            }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            // Whatever fits is shown.
            if planted(PlantedBug.hidesWhatFits) { return }
            for (index, seq) in sets.enumerated() { try replayAlone(seq, ord: Self.replayOrd - 1 - index * 2) }
        }
    }

    private func replayAlone(_ seq: Int64, ord: Int) throws {
        do {
            try db.inSavepoint {
                try replay([seq], ord: ord)
                return .commit
            }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            // Stays in the outbox; see `replay()`.
            return
        }
    }

    private func replay(_ sets: [Int64], ord: Int) throws {
        let parts = sets.indices.map { 1_000_000 + $0 }
        for (part, seq) in zip(parts, sets) {
            try db.cachedStatement(
                sql:
                    "DELETE FROM temp.tidemark_staged_cell WHERE rec IN (SELECT rec FROM temp.tidemark_staged WHERE ord = ?)"
            ).execute(arguments: [part])
            try db.cachedStatement(sql: "DELETE FROM temp.tidemark_staged WHERE ord = ?").execute(arguments: [part])
            try StagedImages.stage(
                "SELECT tbl, key, operation, attributes FROM tidemark_outbox WHERE seq = ?",
                arguments: [seq],
                ord: part,
                in: db
            )
        }
        try Coalesce.merge(parts, into: ord, in: db)
        try RecordWriter(db, schema: schema, existing: .overwrite).write(ord: ord)
        try refuseBrokenReferences(ord)
    }

    /// References are not enforced while the server's rows are taken in, so what is put on top of
    /// them is looked at here.
    private func refuseBrokenReferences(_ ord: Int) throws {
        for table in schema.tables {
            for reference in table.references {
                for sql in [orphanSQL(table, reference), abandonedSQL(table, reference)] {
                    guard let sql else { continue }
                    let isBroken = try Bool.fetchOne(
                        db.cachedStatement(sql: "SELECT EXISTS (\(sql))"),
                        arguments: [ord]
                    )
                    guard isBroken == true else { continue }
                    throw DatabaseError(resultCode: .SQLITE_CONSTRAINT_FOREIGNKEY)
                }
            }
        }
    }

    /// Staged records that refer to nothing.
    private func orphanSQL(_ table: SyncedTable, _ reference: SyncedTable.Reference) -> String? {
        let match = zip(reference.columns, reference.parentColumns).map {
            "p.\(SQLText.name($1)) = c.\(SQLText.name($0))"
        }
        let isSet = reference.columns.map { "c.\(SQLText.name($0)) IS NOT NULL" }
        return """
            SELECT 1 FROM temp.tidemark_staged AS s JOIN main.\(SQLText.name(table.name)) AS c
                ON \(KeySQL.match(table, key: "s.key", alias: "c."))
            WHERE s.ord = ?1 AND s.tbl = \(SQLText.literal(table.name))
                AND s.operation <> 'delete' AND \(isSet.joined(separator: " AND "))
                AND NOT EXISTS (SELECT 1 FROM main.\(SQLText.name(reference.parent)) AS p
                    WHERE \(match.joined(separator: " AND ")))
            """
    }

    /// Children, by others, of records that are staged to be deleted; nil where the reference is
    /// not to the key, so that the record's own key does not tell.
    private func abandonedSQL(_ table: SyncedTable, _ reference: SyncedTable.Reference) -> String? {
        guard let parent = schema.byName[reference.parent], parent.key == reference.parentColumns else { return nil }
        let match = reference.columns.indices.map {
            "c.\(SQLText.name(reference.columns[$0])) = \(KeySQL.part(parent, $0, of: "s.key"))"
        }
        return """
            SELECT 1 FROM temp.tidemark_staged AS s JOIN main.\(SQLText.name(table.name)) AS c
                ON \(match.joined(separator: " AND "))
            WHERE s.ord = ?1 AND s.tbl = \(SQLText.literal(parent.name)) AND s.operation = 'delete'
            """
    }
}
