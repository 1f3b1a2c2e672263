import GRDB
import TidemarkCore
import TidemarkSQL

/// Gives records other ids of this device, wherever the file has their former ids.
///
/// `temp.tidemark_assigned` lists the records, with the former id as `temporary`.
struct RenumberRecords {
    let db: Database
    let schema: SyncSchema

    /// Takes new ids for a query's records, `tbl` and `id`; false if it has none, throws if the table has no id left.
    ///
    /// It leaves out records of tables that the zone does not have, or not any more: they keep their ids.
    func assign(_ records: String, arguments: StatementArguments = []) throws -> Bool {
        try db.execute(cached: "DELETE FROM temp.tidemark_assigned")
        let tables = schema.tables.filter { $0.keyKind == .integer }.map { SQLText.literal($0.name) }
        // Until the ids are known, `permanent` is the record's number.
        try db.execute(
            cached: """
                INSERT INTO temp.tidemark_assigned
                SELECT tbl, id, row_number() OVER (PARTITION BY tbl ORDER BY abs(id)) - 1 FROM (\(records))
                WHERE tbl IN (\(tables.joined(separator: ", ")))
                """, arguments: arguments)
        guard db.changesCount > 0 else { return false }
        let drawn = DrawnIDs(db: db, schema: schema)
        let counts = try Row.fetchAll(
            db, sql: "SELECT tbl, count(*) AS records FROM temp.tidemark_assigned GROUP BY tbl")
        for row in counts {
            guard let table = try schema.byName[row.value("tbl")] else { continue }
            let runs = try drawn.take(row.value("records"), of: table).map(\.json).joined(separator: ",")
            try db.execute(
                cached: """
                    UPDATE temp.tidemark_assigned
                    SET permanent = \(DrawnIDs.Run.idSQL(number: "permanent"))
                    FROM json_each(?) AS run
                    WHERE tbl = ? AND permanent BETWEEN run.value ->> 0 AND run.value ->> 1
                    """, arguments: ["[\(runs)]", table.name])
        }
        return true
    }

    func assign(_ records: [(table: String, id: Int64)]) throws -> Bool {
        let list = records.map { "[\(JSONText.quote($0.table)),\($0.id)]" }.joined(separator: ",")
        return try assign("SELECT value ->> 0 AS tbl, value ->> 1 AS id FROM json_each(?)", arguments: ["[\(list)]"])
    }

    private var rewriting: RewriteKeys { RewriteKeys(db: db, schema: schema, pairs: .ids) }

    /// Writes the ids to the rows, to pending changes and to references.
    func renamePending() throws {
        // Children refer to the new id before the parent has it, so SQLite must defer the check. While
        // the device applies answers, the same statements run with `foreign_keys` off.
        try ConnectionFlag.withNewStatements(db) {
            try ConnectionFlag.deferForeignKeys.set(true, in: db)
            try DeviceFile.whileApplying(db) {
                try RenameRows(db: db, schema: schema).run()
                try rewriting.run()
                try rewriting.runInOwnReferences()
            }
        }
    }

    /// Writes the ids to all parked changes, only for former ids that stand for no other record.
    func renameParked() throws {
        try rewriting.run(in: ["tidemark_conflict_record"])
        try forgetTheirs()
    }

    /// Writes the ids to a conflict and its dependents; in others a former id may stand for the record that has it now.
    func renameParked(from conflict: String) throws {
        let conflicts = try String.fetchAll(
            db,
            cached: """
                WITH RECURSIVE depending (id) AS (
                    SELECT ?1
                    UNION
                    SELECT parked.id
                    FROM depending
                    JOIN tidemark_conflict AS parked
                    JOIN json_each(parked.after) AS predecessor ON predecessor.value = depending.id
                )
                SELECT id FROM depending
                """, arguments: [conflict])
        let list = conflicts.map { SQLText.literal($0) }.joined(separator: ", ")
        try rewriting.run(in: ["tidemark_conflict_record"], where: "id IN (\(list))")
        try forgetTheirs()
    }

    /// Removes the server's versions of parked records that have new ids: those were versions of other records.
    private func forgetTheirs() throws {
        try db.execute(
            sql: """
                UPDATE tidemark_conflict_record SET theirs = NULL
                WHERE (tbl, key) IN (SELECT tbl, CAST(permanent AS TEXT) FROM temp.tidemark_assigned)
                """)
    }

    func events() throws -> [DeviceEvent] {
        let rows = try Row.fetchAll(db, sql: "SELECT tbl, temporary, permanent FROM temp.tidemark_assigned")
        return try Dictionary(grouping: rows) { try $0.value("tbl") as String }.sorted { $0.key < $1.key }.map {
            let pairs = try $0.value.map { (try $0.value("temporary") as Int64, try $0.value("permanent") as Int64) }
            return .identitiesAssigned(table: $0.key, ids: Dictionary(uniqueKeysWithValues: pairs))
        }
    }
}
