import GRDB
import TidemarkCore
import TidemarkServer
import TidemarkSQLite

/// Changes that the sqlite3 shell or another program made in the zone's own tables become a
/// revision.
///
/// Their triggers captured them; here they are reduced and logged like a device's change set,
/// without an author. Where transactions ended outside is not known, so all that waits is one
/// revision: a union of transactions is still atomic.
extension ZoneTransaction {
    package func absorbOutsideChanges() throws {
        guard let range = try ReduceCapture.settled(schema, in: db) else { return }
        try ReduceCapture.reduce(range, schema: schema, in: db)
        guard try Bool.fetchOne(db.cachedStatement(sql: "SELECT EXISTS (SELECT 1 FROM temp.tidemark_reduced)")) ?? false
        else { return try ReduceCapture.forget(range, schema: schema, in: db) }
        try refuseUnfitKeys()
        try refuseBrokenOutside()
        if planted(PlantedBug.leavesCascadesOutOfLog) {
            let deleted = "FROM temp.tidemark_reduced WHERE operation = 'delete'"
            try db.execute(sql: "DELETE \(deleted) AND tbl <> (SELECT max(tbl) \(deleted))")
        }
        let revision = try nextRevision()
        var clock = HybridClock(last: try zone().time)
        try logReduced(id: nil, stamp: Stamp(time: clock.next(at: now)), revision: revision)
        try ReduceCapture.forget(range, schema: schema, in: db)
    }

    /// Keys that no device can name: ids that stand for records not yet synced, and NULL, which
    /// SQLite takes in most primary keys.
    private func refuseUnfitKeys() throws {
        let unfit = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT r.tbl, r.key FROM temp.tidemark_reduced AS r
                    JOIN temp.tidemark_table AS t ON t.tbl = r.tbl
                    WHERE r.operation <> 'delete' AND CASE t.kind
                        WHEN 'integer' THEN CAST(r.key AS INTEGER) NOT BETWEEN 0 AND \(TemporaryID.permanentMax)
                        ELSE r.key = 'null' OR json_type(r.key) = 'array'
                            AND EXISTS (SELECT 1 FROM json_each(r.key) WHERE type = 'null')
                    END LIMIT 1
                    """
            )
        )
        guard let unfit else { return }
        throw TidemarkError(
            .unavailable,
            "A row written into the zone's file has a key that is NULL, below 0 or above 2^52 - 1.",
            fix: "Give it another key in the file, or delete it.",
            place: try .init(table: unfit.value("tbl"), key: unfit.value("key"))
        )
    }

    /// A program with `foreign_keys` off can leave references that point at nothing.
    ///
    /// No device may see one, so the zone waits until somebody mends the rows; nothing is lost
    /// meanwhile.
    private func refuseBrokenOutside() throws {
        let changed = try Row.fetchAll(
            db.cachedStatement(sql: "SELECT DISTINCT tbl, operation FROM temp.tidemark_reduced")
        )
        let tables = try Dictionary(grouping: changed) { try $0.value("operation") as String }.mapValues {
            try Set($0.map { try $0.value("tbl") as String })
        }
        let written = tables["create", default: []].union(tables["update", default: []])
        let check = ForeignKeyCheck(db, schema: schema)
        for table in schema.tables where !table.references.isEmpty {
            // Any row may have referred to what is gone; else only what was written can be wrong.
            let hasLostParents = table.references.contains { reference in
                tables["delete", default: []].contains(reference.parent)
                    || tables["update", default: []].contains(reference.parent)
                        && schema.byName[reference.parent]?.key != reference.parentColumns
            }
            guard hasLostParents || written.contains(table.name) else { continue }
            let broken =
                hasLostParents
                ? try check.broken(in: table, limit: 1) : try check.brokenAmongReduced(in: table, limit: 1)
            guard let broken = broken.first else { continue }
            throw TidemarkError(
                .unavailable,
                "A row written into the zone's file refers to \(broken.parent) \(broken.parentKey), which does not exist.",
                fix:
                    "Mend it in the file: insert the parent, or update or delete the child; PRAGMA foreign_key_check lists all.",
                place: .init(table: broken.table, key: broken.key, column: broken.column)
            )
        }
    }
}
