package import GRDB
package import TidemarkCore
import TidemarkSQLite

/// Resolves a parked conflict.
///
/// The outcome is an ordinary edit: it is captured and becomes a new change set.
package struct ResolveConflict {
    let db: Database
    let schema: SyncSchema

    private static let ord = 0

    /// Resolves conflicts of the file behind a connection.
    package init(db: Database, schema: SyncSchema) { (self.db, self.schema) = (db, schema) }

    /// Resolves the conflict with an id or a number, inside a transaction of the caller's.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` when there is none, or when the change does not fit
    ///   the rows any more.
    package func resolve(_ name: String, _ resolution: Resolution) throws {
        let id = try String.fetchOne(
            db,
            sql:
                "SELECT id FROM tidemark_conflict WHERE id = lower(?1) OR CAST(number AS TEXT) = ?1",
            arguments: [name]
        )
        guard let id else {
            throw TidemarkError(
                .invalidArgument,
                "There is no conflict \(name) in this file.",
                fix: "`tidemark device conflicts FILE` lists them."
            )
        }
        if resolution == .retry { try redo(id) }
        try db.execute(sql: "DELETE FROM tidemark_conflict_record WHERE id = ?", arguments: [id])
        try db.execute(sql: "DELETE FROM tidemark_conflict WHERE id = ?", arguments: [id])
    }

    /// Makes the parked changes again.
    ///
    /// An update or deletion whose record is gone is left out when it would delete, and creates the
    /// record again, under a new id where the server gives ids, when it would update.
    private func redo(_ id: String) throws {
        try EngineConnection.prepare(db, schema: schema)
        try StagingTables.clear(in: db)
        let rows = try Row.fetchAll(
            db,
            sql: "SELECT * FROM tidemark_conflict_record WHERE id = ? AND operation <> 'unchanged'",
            arguments: [id]
        )
        for row in rows {
            guard let table = schema.byName[row["tbl"]] else { continue }
            try stage(row, table)
        }
        do {
            try RecordWriter(db, schema: schema, existing: .overwrite).write(ord: Self.ord)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            throw TidemarkError(
                .constraintViolated,
                "The change does not fit the rows as they are now: \(error.message ?? "a constraint failed").",
                fix: "Edit the rows so that it does, then retry; or accept the server's version."
            )
        }
    }

    private func stage(_ row: Row, _ table: SyncedTable) throws {
        var (key, operation): (String, String) = (row["key"], row["operation"])
        var attributes: String? = row["mine"]
        let isThere =
            try Bool.fetchOne(
                db,
                sql: """
                    SELECT EXISTS (SELECT 1 FROM main.\(SQLText.name(table.name))
                    WHERE \(KeySQL.match(table, key: "?1")))
                    """,
                arguments: [key]
            ) ?? false
        if operation == "update", !isThere {
            operation = "create"
            attributes = try merged(row["base"], attributes)
            if table.keyKind == .integer { key = String(try TemporaryIDs.next(db)) }
        }
        if operation == "delete", !isThere { return }
        try StagedImages.stage(
            "SELECT ?1 AS tbl, ?2 AS key, ?3 AS operation, ?4 AS attributes",
            arguments: [table.name, key, operation, attributes],
            ord: Self.ord,
            in: db
        )
    }

    /// The columns of `base`, with those of `mine` in their place where it has them.
    private func merged(_ base: String?, _ mine: String?) throws -> String? {
        try String.fetchOne(
            db,
            sql: """
                SELECT json_group_object(key, json(value)) FROM (
                    SELECT j.key, ?1 -> j.fullkey AS value FROM json_each(?1) AS j
                    WHERE NOT EXISTS (SELECT 1 FROM json_each(?2) AS m WHERE m.key = j.key)
                    UNION ALL SELECT m.key, ?2 -> m.fullkey FROM json_each(?2) AS m)
                """,
            arguments: [base ?? "{}", mine ?? "{}"]
        )
    }
}
