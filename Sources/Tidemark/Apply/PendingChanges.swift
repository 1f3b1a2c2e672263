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
                db.cachedStatement(sql: "SELECT NOT EXISTS (SELECT 1 FROM tidemark_base)")
            ) ?? true
        }
    }

    /// Puts every record with waiting changes back to what the server confirmed.
    func rewind() throws {
        guard try !isEmpty else { return }
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
        try db.cachedStatement(
            sql: """
                DELETE FROM tidemark_base WHERE NOT EXISTS (
                    SELECT 1 FROM tidemark_outbox AS o WHERE o.tbl = tidemark_base.tbl AND o.key = tidemark_base.key)
                """
        ).execute()
        try db.cachedStatement(
            sql:
                "INSERT OR IGNORE INTO tidemark_base SELECT DISTINCT tbl, key, NULL FROM tidemark_outbox"
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
    /// A change set that no longer fits, for instance because somebody took its unique value, stays
    /// in the outbox without being shown; the server's verdict will make it a conflict.
    func replay() throws {
        guard try !isEmpty else { return }
        let sets = try Int64.fetchAll(
            db.cachedStatement(sql: "SELECT seq FROM tidemark_changeset ORDER BY seq")
        )
        do {
            try db.inSavepoint {
                try replay(sets, ord: Self.replayOrd)
                return .commit
            }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            for (index, seq) in sets.enumerated() {
                try replayAlone(seq, ord: Self.replayOrd - 1 - index * 2)
            }
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
            try db.cachedStatement(sql: "DELETE FROM temp.tidemark_staged WHERE ord = ?").execute(
                arguments: [part])
            try StagedImages.stage(
                "SELECT tbl, key, operation, attributes FROM tidemark_outbox WHERE seq = ?",
                arguments: [seq],
                ord: part,
                in: db
            )
        }
        try Coalesce.merge(parts, into: ord, in: db)
        try RecordWriter(db, schema: schema, existing: .overwrite).write(ord: ord)
    }
}
