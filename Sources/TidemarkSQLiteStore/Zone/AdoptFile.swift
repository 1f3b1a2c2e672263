package import GRDB
package import TidemarkCore
package import TidemarkSQLite

/// Makes a SQLite file a zone: looks whether its tables and rows can be synced, then adds
/// bookkeeping and capture.
///
/// The app's tables stay as they are and remain usable by any program. The rows that are there are
/// revision 1; taking them in costs nothing per row, because a row without a log entry is at the
/// adoption's revision.
package struct ZoneAdoption {
    /// What the zone's file holds, when it can be synced.
    package let schema: SyncSchema
    /// Tables that stay local to the file.
    package let skipped: [String]
    /// What became of the conflict policies.
    package let policyChanges: [PolicyChange]

    /// Adopts the file, or opens it again when it was adopted before; then what was altered in its
    /// tables meanwhile becomes part of the history.
    ///
    /// `epoch` is a new random id, used when the file has no history yet, or when it goes on with
    /// another one because it is restored from a backup; tables in `excluding` are left alone;
    /// `policies` are changed, all others stay as the file has them; `renames` are columns that
    /// were renamed since the last time. Throws ``TidemarkCore/UnsyncableSchema`` with every
    /// problem of the tables and of their rows.
    package init(
        _ db: Database,
        name: String,
        epoch: String,
        isRestored: Bool = false,
        excluding: Set<String>,
        policies: [String: ConflictPolicy],
        renames: [ColumnRename] = []
    ) throws {
        guard try !db.tableExists("tidemark_device") else {
            throw TidemarkError(
                .unusableFile,
                "This file is a device's, joined to a server; it cannot be a zone.",
                fix: "Serve the server's own file, or a copy made with .dump of the app's tables."
            )
        }
        let introspection = try SchemaIntrospection(db, excluding: excluding)
        let schema = try introspection.validated()
        try EngineConnection.prepare(db, schema: schema)
        let isNew = try !db.tableExists("tidemark_zone")
        if isNew {
            guard !schema.tables.isEmpty else { throw Self.nothingToServe }
            let problems = try RowValidation(db, schema: schema).problems()
            guard problems.isEmpty else { throw UnsyncableSchema(problems: problems) }
        }
        let history = try FollowSchema(db: db, schema: schema, renames: renames).run(isNew: isNew)
        if isNew {
            let first = try Self.hasRows(db, schema) ? 1 : 0
            try db.execute(
                sql: """
                    INSERT INTO tidemark_zone (id, name, epoch, revision, horizon, adopted)
                    VALUES (1, ?, ?, ?, ?, ?)
                    """,
                arguments: [name, epoch, first, first, first]
            )
        }
        try Self.requireLatest(db)
        if isRestored, !isNew, !planted(PlantedBug.keepsEpochWhenPutBack) {
            try db.execute(sql: "INSERT OR REPLACE INTO tidemark_lineage SELECT epoch, revision FROM tidemark_zone")
            try db.execute(sql: "UPDATE tidemark_zone SET epoch = ?", arguments: [epoch])
        }
        let before = SyncSchema(tables: schema.tables, policies: try ZonePolicies.read(in: db))
        policyChanges = try before.changes(to: policies)
        let after = before.policies(after: policyChanges)
        if !policyChanges.isEmpty { try ZonePolicies.write(after, in: db) }
        self.schema = SyncSchema(tables: schema.tables, policies: after, history: history)
        skipped = introspection.skipped
    }

    /// Refuses a zone whose log has later revisions than it says: no commit could get a number.
    private static func requireLatest(_ db: Database) throws {
        let (zone, log) = try ZoneTransaction.ends(in: db)
        guard zone < log else { return }
        throw TidemarkError(
            .fileDamaged,
            "The file says that it is at revision \(zone), but its log reaches \(log).",
            fix: "`tidemark verify FILE --repair` has it go on from \(log); or put a backup back."
        )
    }

    private static let nothingToServe = TidemarkError(
        .unusableFile,
        "The file has no tables to sync.",
        fix: "Make them first, or start an empty zone with --schema FILE.sql --data DIR."
    )

    private static func hasRows(_ db: Database, _ schema: SyncSchema) throws -> Bool {
        try schema.tables.contains {
            try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM \(SQLText.name($0.name)))") ?? false
        }
    }
}

extension SchemaIntrospection {
    /// The tables of a zone's or a device's file that do not sync: those that are not captured.
    package static func unserved(in db: Database) throws -> Set<String> {
        let captured = try String.fetchSet(
            db,
            sql: """
                SELECT substr(name, 18) FROM main.sqlite_master
                WHERE name LIKE 'tidemark~_capture~_%' ESCAPE '~'
                """
        )
        return Set(try SchemaIntrospection(db).tables.map(\.name)).subtracting(captured)
    }

    /// The tables of a file that sync; all that it has when it is neither a zone's nor a device's.
    package static func synced(in db: Database) throws -> SyncSchema {
        let isKnown = try ["tidemark_zone", "tidemark_device"].contains { try db.tableExists($0) }
        return try SchemaIntrospection(db, excluding: isKnown ? unserved(in: db) : []).validated(
            policies: ZonePolicies.read(in: db)
        )
    }

    /// Refuses exclusions of tables that a database does not have.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` `invalidArgument`.
    static func requireKnown(_ excluded: Set<String>, in db: Database) throws {
        let introspection = try SchemaIntrospection(db)
        let names = introspection.tables.map(\.name) + introspection.skipped
        try TidemarkError.requireKnown(excluded, among: names)
    }
}

/// Looks whether the rows of a file can be synced: keys that can be told apart, references that
/// point at something.
struct RowValidation {
    private let db: Database
    private let schema: SyncSchema

    init(_ db: Database, schema: SyncSchema) { (self.db, self.schema) = (db, schema) }

    func problems() throws -> [SchemaProblem] {
        try schema.tables.flatMap { try keyProblems($0) }
            + ForeignKeyCheck(db, schema: schema).all().map { broken in
                SchemaProblem(
                    table: broken.table,
                    column: broken.column,
                    reason: "row \(broken.key) refers to \(broken.parent) \(broken.parentKey), which does not exist",
                    cure: """
                        PRAGMA foreign_key_check(\(SQLText.name(broken.table))); -- lists every such row
                        -- then insert the parent, or update or delete the child
                        """
                )
            }
    }

    private func keyProblems(_ table: SyncedTable) throws -> [SchemaProblem] {
        let name = SQLText.name(table.name)
        let keys = table.key.map { SQLText.name($0) }
        var problems: [SchemaProblem] = []
        let hasNull = keys.map { "\($0) IS NULL" }.joined(separator: " OR ")
        if try exists("SELECT 1 FROM \(name) WHERE \(hasNull)") {
            problems.append(
                SchemaProblem(
                    table: table.name,
                    column: table.key[0],
                    reason: "has rows whose primary key is NULL",
                    cure: "DELETE FROM \(name) WHERE \(hasNull); -- or give them a key"
                )
            )
        }
        if table.keyKind == .text, try exists("SELECT 1 FROM \(name) WHERE typeof(\(keys[0])) = 'blob'") {
            problems.append(
                SchemaProblem(
                    table: table.name,
                    column: table.key[0],
                    reason: "has blobs in a TEXT primary key",
                    cure: "UPDATE \(name) SET \(keys[0]) = hex(\(keys[0])) WHERE typeof(\(keys[0])) = 'blob';"
                )
            )
        }
        let isReserved = "\(keys[0]) < 0 OR \(keys[0]) > \(TemporaryID.permanentMax)"
        if table.keyKind == .integer, try exists("SELECT 1 FROM \(name) WHERE \(isReserved)") {
            problems.append(
                SchemaProblem(
                    table: table.name,
                    column: table.key[0],
                    reason: "has ids below 0 or above 2^52 - 1, which stand for records not yet synced",
                    cure: "SELECT \(keys[0]) FROM \(name) WHERE \(isReserved); -- then give these rows other ids"
                )
            )
        }
        return problems
    }

    private func exists(_ sql: String) throws -> Bool { try Bool.fetchOne(db, sql: "SELECT EXISTS (\(sql))") ?? false }
}
