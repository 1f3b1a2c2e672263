import GRDB
import TidemarkCore
import TidemarkSQL

/// Takes pending changes out of the tables and replays them, so that the server's changes apply to the server's rows.
struct PendingChanges {
    let db: Database
    let schema: SyncSchema

    private var isEmpty: Bool {
        get throws {
            try Bool.fetchOne(
                db,
                cached: """
                    SELECT NOT EXISTS (SELECT 1 FROM tidemark_base)
                        AND NOT EXISTS (SELECT 1 FROM tidemark_outbox)
                    """) ?? true
        }
    }

    /// Resets every record with pending changes to its confirmed version.
    func rewind() throws {
        try UnservedColumns(db: db, schema: schema).save(all: false)
        guard try !isEmpty, !planted(PlantedBug.appliesOnTopOfEdits) else { return }
        try StagedImages.stage(
            """
            SELECT tbl, key, iif(image IS NULL, 'delete', 'create') AS operation, image AS attributes
            FROM tidemark_base
            """, ord: StagedPurpose.rewind.ord, in: db)
        try RecordWriter(db, schema: schema).write(ord: StagedPurpose.rewind.ord)
    }

    /// Resets records with pending sums to their confirmed versions, because their rows have the sums already.
    func rewindSums() throws {
        try StagedImages.stage(
            """
            SELECT tbl, key, 'create' AS operation, image AS attributes
            FROM tidemark_base AS base
            WHERE image IS NOT NULL AND EXISTS (
                SELECT 1 FROM tidemark_outbox AS entry
                WHERE entry.tbl = base.tbl AND entry.key = base.key AND \(Delta.has("entry.attributes")))
            """, ord: StagedPurpose.rewind.ord, in: db)
        try RecordWriter(db, schema: schema).write(ord: StagedPurpose.rewind.ord)
    }

    /// Stores the current rows as the bases of the records that still have pending changes.
    func refreshBase() throws {
        guard try !isEmpty else { return }
        try Outbox.deleteUnusedBases(in: db)
        try db.execute(
            cached: "INSERT OR IGNORE INTO tidemark_base SELECT DISTINCT tbl, key, NULL FROM tidemark_outbox")
        for table in schema.tables {
            let object = RowJSON.object(table.valueColumns.map(\.name), prefix: "app_row.")
            try db.execute(
                cached: """
                    UPDATE tidemark_base SET image = (
                        SELECT \(object) FROM main.\(SQLText.name(table.name)) AS app_row
                        WHERE \(KeySQL.match(table, key: "tidemark_base.key", alias: "app_row.")))
                    WHERE tbl = ?
                    """, arguments: [table.name])
        }
    }

    /// A change set that no longer fits stays in the outbox without a replay; the server's verdict makes it a conflict.
    func replay() throws {
        if try !isEmpty, !planted(PlantedBug.forgetsToReplay) { try replayAll() }
        try UnservedColumns(db: db, schema: schema).restore()
    }

    private func replayAll() throws {
        let sets = try Int64.fetchAll(db, cached: "SELECT seq FROM tidemark_changeset ORDER BY seq")
        do {
            try db.inSavepoint {
                try replay(sets, ord: StagedPurpose.replay.ord)
                return .commit
            }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            // One change set does not fit, so replay each one that does.
            if planted(PlantedBug.hidesWhatFits) { return }
            for (index, seq) in sets.enumerated() { try replayAlone(seq, ord: StagedPurpose.replayAlone.number(index)) }
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
        let parts = sets.indices.map { StagedPurpose.replayPart.number($0) }
        for (part, seq) in zip(parts, sets) {
            for table in ["cell", "delta"] {
                try db.execute(
                    cached: """
                        DELETE FROM temp.tidemark_staged_\(table)
                        WHERE rec IN (SELECT rec FROM temp.tidemark_staged WHERE ord = ?)
                        """, arguments: [part])
            }
            try db.execute(cached: "DELETE FROM temp.tidemark_staged WHERE ord = ?", arguments: [part])
            try StagedImages.stage(
                "SELECT tbl, key, operation, attributes FROM tidemark_outbox WHERE seq = ?", arguments: [seq],
                hasDeltas: true, ord: part, in: db)
        }
        try Coalesce.merge(parts, into: ord, in: db)
        try RecordWriter(db, schema: schema).write(ord: ord)
        try refuseBrokenReferences(ord)
    }

    /// Checks the references of replayed records, because SQLite does not enforce references here.
    private func refuseBrokenReferences(_ ord: Int) throws {
        for table in schema.tables {
            for reference in table.references {
                for sql in [orphanSQL(table, reference), abandonedSQL(table, reference)] {
                    guard let sql else { continue }
                    let isBroken = try Bool.fetchOne(db, cached: "SELECT EXISTS (\(sql))", arguments: [ord])
                    guard isBroken == true else { continue }
                    throw DatabaseError(resultCode: .SQLITE_CONSTRAINT_FOREIGNKEY)
                }
            }
        }
    }

    /// Selects staged records with a reference to a missing record.
    private func orphanSQL(_ table: SyncedTable, _ reference: SyncedTable.Reference) -> String? {
        let match = zip(reference.columns, reference.parentColumns).map {
            "parent_row.\(SQLText.name($1)) = child_row.\(SQLText.name($0))"
        }
        let isSet = reference.columns.map { "child_row.\(SQLText.name($0)) IS NOT NULL" }
        return """
            SELECT 1
            FROM temp.tidemark_staged AS staged
            JOIN main.\(SQLText.name(table.name)) AS child_row
                ON \(KeySQL.match(table, key: "staged.key", alias: "child_row."))
            WHERE staged.ord = ?1 AND staged.tbl = \(SQLText.literal(table.name))
                AND staged.operation <> 'delete' AND \(isSet.joined(separator: " AND "))
                AND NOT EXISTS (
                    SELECT 1 FROM main.\(SQLText.name(reference.parent)) AS parent_row
                    WHERE \(match.joined(separator: " AND ")))
            """
    }

    /// Selects children of staged deletions; nil unless by primary key, the only columns that a staged deletion has.
    private func abandonedSQL(_ table: SyncedTable, _ reference: SyncedTable.Reference) -> String? {
        guard let parent = schema.byName[reference.parent], parent.key == reference.parentColumns else { return nil }
        let match = reference.columns.indices.map {
            "child_row.\(SQLText.name(reference.columns[$0])) = \(KeySQL.part(parent, $0, of: "staged.key"))"
        }
        return """
            SELECT 1
            FROM temp.tidemark_staged AS staged
            JOIN main.\(SQLText.name(table.name)) AS child_row
                ON \(match.joined(separator: " AND "))
            WHERE staged.ord = ?1 AND staged.tbl = \(SQLText.literal(parent.name)) AND staged.operation = 'delete'
            """
    }
}
