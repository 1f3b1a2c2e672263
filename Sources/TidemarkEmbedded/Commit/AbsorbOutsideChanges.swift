import GRDB
import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// Logs the changes of other programs, such as the sqlite3 shell, as a revision without an author.
///
/// The capture triggers recorded the changes; the store coalesces and logs them like a change set.
/// The file does not tell where the programs' transactions ended. So all captured changes become one
/// revision, which is still atomic.
extension ZoneTransaction {
    package func absorbOutsideChanges() throws {
        guard let range = try ReduceCapture.collectPending(schema, in: db) else { return }
        try ReduceCapture.reduce(range, schema: schema, in: db)
        let hasChanges = try Bool.fetchOne(
            db.cachedStatement(sql: "SELECT EXISTS (SELECT 1 FROM temp.tidemark_reduced)")
        )
        guard hasChanges == true else { return try ReduceCapture.deleteCaptures(range, schema: schema, in: db) }
        try refuseUnusableKeys()
        try refuseBrokenReferences()
        try runPlanted(PlantedBug.leavesCascadesOutOfLog, in: db)
        let revision = try nextRevision()
        var clock = HybridClock(last: try zone().time)
        try logReduced(id: nil, stamp: Stamp(time: clock.next(at: now)), revision: revision)
        try ReduceCapture.deleteCaptures(range, schema: schema, in: db)
    }

    /// Refuses keys that no device can use: temporary ids, and NULL.
    ///
    /// SQLite allows NULL in most primary keys.
    private func refuseUnusableKeys() throws {
        let row = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT change.tbl, change.key
                    FROM temp.tidemark_reduced AS change
                    JOIN temp.tidemark_table AS synced_table ON synced_table.tbl = change.tbl
                    WHERE change.operation <> 'delete'
                        AND CASE synced_table.kind
                            WHEN 'integer' THEN
                                CAST(change.key AS INTEGER)
                                    NOT BETWEEN synced_table.lowest AND \(TemporaryID.permanentMax)
                            ELSE change.key = 'null'
                                OR json_type(change.key) = 'array'
                                    AND EXISTS (SELECT 1 FROM json_each(change.key) WHERE type = 'null')
                        END
                    LIMIT 1
                    """
            )
        )
        guard let row else { return }
        throw TidemarkError(
            .unavailable,
            "A row written into the zone's file has a key that is NULL, stands for a temporary id or is above 2^52 - 1.",
            fix: "Give it another key in the file, or delete it.",
            place: try .init(table: row.value("tbl"), key: row.value("key"))
        )
    }

    /// Refuses broken references, which a program with `foreign_keys` off can leave behind.
    ///
    /// No device may receive a broken reference. So the zone refuses requests until the operator
    /// repairs the rows; no change is lost meanwhile.
    private func refuseBrokenReferences() throws {
        let changes = try Row.fetchAll(
            db.cachedStatement(sql: "SELECT DISTINCT tbl, operation FROM temp.tidemark_reduced")
        )
        let tables = try Dictionary(grouping: changes) { try $0.value("operation") as String }.mapValues {
            try Set($0.map { try $0.value("tbl") as String })
        }
        let tablesWithWrites = tables["create", default: []].union(tables["update", default: []])
        let check = ForeignKeyCheck(db, schema: schema)
        for table in schema.tables where !table.references.isEmpty {
            // If a parent disappeared, any child may be broken; otherwise only a changed row can be.
            let hasLostParents = table.references.contains { reference in
                tables["delete", default: []].contains(reference.parent)
                    || tables["update", default: []].contains(reference.parent)
                        && schema.byName[reference.parent]?.key != reference.parentColumns
            }
            guard hasLostParents || tablesWithWrites.contains(table.name) else { continue }
            let broken =
                hasLostParents
                ? try check.brokenReferences(in: table, limit: 1)
                : try check.brokenReferencesOfReduced(in: table, limit: 1)
            guard let broken = broken.first else { continue }
            throw TidemarkError(
                .unavailable,
                """
                A row written into the zone's file refers to \(broken.parent) \(broken.parentKey), which does not \
                exist.
                """,
                fix:
                    """
                    Mend it in the file: insert the parent, or update or delete the child; PRAGMA foreign_key_check \
                    lists all.
                    """,
                place: .init(table: broken.table, key: broken.key, column: broken.column)
            )
        }
    }
}
