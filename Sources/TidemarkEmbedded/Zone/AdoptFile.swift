package import GRDB
package import TidemarkCore
import TidemarkEngine
package import TidemarkSQL

/// Adopts a SQLite file as a zone: checks its tables and rows, then adds bookkeeping and capture.
///
/// The app's tables stay unchanged, and any program can use them. The existing rows are revision 1: a row without a log
/// entry is at the adoption's revision. Adoption sums them up, because the first commit would otherwise do it while all
/// others wait.
package struct ZoneAdoption {
    package let schema: SyncSchema
    /// Tables that stay local to the file.
    package let skipped: [String]
    package let policyChanges: [PolicyChange]
    /// The columns of a newly adopted file that seem to be references and are not declared.
    package let undeclaredReferences: [UndeclaredReference]
    /// Why device change sets that fire some triggers are refused.
    package let warnings: [SchemaProblem]
    /// The views and triggers that call functions which only the program has, with these functions.
    package let programCalls: [String]

    /// Adopts the file, or opens a zone's file and follows the schema changes since the last opening, in a transaction.
    ///
    /// `epoch` is a random id for a new history, of a new zone or after a restore. `keys` are those that the operator
    /// declares for tables without a primary key. Policies without a change stay.
    ///
    /// - Throws: ``TidemarkCore/UnsyncableSchema`` with every problem of the tables and their rows.
    package init(
        _ db: Database, name: String, epoch: String, isRestored: Bool = false, excluding: Set<String>,
        keys: [String: [String]] = [:], policies: [String: ConflictPolicy], renames: [ColumnRename] = [],
        objects: ObjectDeclarations = ObjectDeclarations()
    ) throws {
        guard try !db.tableExists("tidemark_device") else {
            throw TidemarkError(
                .unusableFile, "This file is a device's, joined to a server; it cannot be a zone.",
                fix: "Serve the server's own file, or a copy made with .dump of the app's tables.")
        }
        let collations = try objects.collations(in: db)
        try objects.storeMigrationTables(in: db)
        let excluding = try excluding.union(MigrationTables.names(in: db))
        let isNew = try !ZoneTables.areMade(in: db)
        let introspect = {
            let introspection = try ZoneTraits(db: db, excluding: excluding)
                .introspect(declaring: keys, renames: renames)
            ProgramFunctions.addStandIns(try introspection.makeSchema().objects, to: db)
            return introspection
        }
        try Self.refuseShadowTriggers(in: db, introspect)
        var introspection = try introspect()
        guard !isNew || !introspection.tables.isEmpty else { throw Self.nothingToServe }
        try ZoneTables.make(in: db)
        try objects.storeCollations(in: db)
        var served = try ServedObjects(db, schema: introspection.makeSchema())
        if served.hasUnknownColumns, try QuotedStrings.rewrite(in: db) {
            introspection = try introspect()
            served = try ServedObjects(db, schema: introspection.makeSchema())
        }
        let schema = try introspection.makeSchema()
        try served.settle(triggers: objects.triggers, collations: collations)
        if isNew { try Self.refuseUnsyncable(schema, served, zone: name, in: db) }
        let history = try FollowSchema(db: db, schema: schema, renames: renames).run(isNew: isNew)
        if isNew {
            let first = try Self.hasRows(db, schema) ? 1 : 0
            try db.execute(
                sql: """
                    INSERT INTO tidemark_zone (id, name, epoch, revision, horizon, adopted)
                    VALUES (1, ?, ?, ?, ?, ?)
                    """,
                arguments: [name, epoch, first, first, first])
        }
        try Self.requireLatest(db)
        if isRestored, !isNew, !planted(PlantedBug.keepsEpochWhenPutBack) { try Self.beginNewHistory(epoch, in: db) }
        let before = SyncSchema(tables: schema.tables, policies: try ZonePolicies.read(in: db))
        policyChanges = try before.changes(to: policies)
        let after = before.policies(after: policyChanges)
        if !policyChanges.isEmpty { try ZonePolicies.write(after, in: db) }
        self.schema = SyncSchema(tables: schema.tables, policies: after, history: history, objects: served.objects)
        warnings = served.problems
        programCalls = served.programCalls
        skipped = introspection.skippedTables
        undeclaredReferences = isNew ? try UndeclaredReference.all(in: schema, db) : []
        if isNew, try Self.hasRows(db, schema) {
            let fingerprint = try RowFingerprints(db, schema: self.schema).all()
            try FileConnection(db).keep([(1, fingerprint)], layout: self.schema.fingerprintLayout)
        }
    }

    /// Repeats the adoption of a file with the same tables and declarations, which changed nothing.
    init(again known: Self) {
        schema = known.schema
        skipped = known.skipped
        policyChanges = []
        undeclaredReferences = []
        warnings = known.warnings
        programCalls = known.programCalls
    }

    private static func refuseUnsyncable(_ schema: SyncSchema, _ served: ServedObjects, zone: String, in db: Database)
        throws
    {
        guard served.problems.isEmpty else { throw UnsyncableSchema(problems: served.problems) }
        // The other zones of a server have the tables of the main one.
        if zone == EmbeddedStore.zoneName {
            try JoinedTables.tryJoin(SyncSchema(tables: schema.tables, objects: served.objects))
        }
        let problems = try RowValidation(db, schema: schema).problems()
        guard problems.isEmpty else { throw UnsyncableSchema(problems: problems) }
    }

    /// Refuses triggers that would end the server's process, with all other problems of the tables.
    private static func refuseShadowTriggers(in db: Database, _ introspect: () throws -> SchemaIntrospection) throws {
        let problems = try ShadowTriggers.problems(in: db)
        guard !problems.isEmpty else { return }
        do { _ = try introspect() } catch let other as UnsyncableSchema {
            throw UnsyncableSchema(problems: problems + other.problems)
        }
        throw UnsyncableSchema(problems: problems)
    }

    static func beginNewHistory(_ epoch: String, in db: Database) throws {
        try db.execute(sql: "INSERT OR REPLACE INTO tidemark_lineage SELECT epoch, revision FROM tidemark_zone")
        try db.execute(sql: "UPDATE tidemark_zone SET epoch = ?", arguments: [epoch])
        // The lost history may have lent ids that the backup does not know.
        try db.execute(sql: "UPDATE tidemark_lent SET number = number + \(IDLayout.lostMax)")
    }

    /// Refuses a zone whose log has later revisions than the zone: the next commit's number is taken.
    static func requireLatest(_ db: Database) throws {
        let (zone, log) = try ZoneTransaction.ends(in: db)
        guard zone < log else { return }
        throw TidemarkError(
            .fileDamaged, "The file says that it is at revision \(zone), but its log reaches \(log).",
            fix: "`tidemark verify FILE --repair` has it go on from \(log); or put a backup back.")
    }

    private static let nothingToServe = TidemarkError(
        .unusableFile, "The file has no tables to sync.",
        fix: "Make them first, or start an empty zone with --schema FILE.sql --data DIR.")

    private static func hasRows(_ db: Database, _ schema: SyncSchema) throws -> Bool {
        try schema.tables.contains {
            try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM \(SQLText.name($0.name)))") ?? false
        }
    }
}

extension SchemaIntrospection {
    /// Returns the tables of a zone's or a device's file that are not captured, so do not sync.
    package static func localTables(in db: Database) throws -> Set<String> {
        let capturedTables = try String.fetchSet(
            db,
            sql: """
                SELECT substr(name, 18) FROM main.sqlite_master
                WHERE name LIKE 'tidemark~_capture~_%' ESCAPE '~'
                """)
        return Set(try SchemaIntrospection(db).tables.map(\.name)).subtracting(capturedTables)
    }

    /// Returns the synced tables of a zone's or a device's file, or all tables of another file.
    package static func syncedSchema(in db: Database) throws -> SyncSchema {
        let hasBookkeeping = try ["tidemark_zone", "tidemark_device"].contains { try db.tableExists($0) }
        return try SchemaIntrospection(db, excluding: hasBookkeeping ? localTables(in: db) : []).makeSchema(
            policies: ZonePolicies.read(in: db))
    }

    /// Refuses to exclude tables that a database does not have, by `invalidArgument`.
    static func requireKnown(_ excluded: Set<String>, in db: Database) throws {
        let introspection = try SchemaIntrospection(db)
        let names = introspection.tables.map(\.name) + introspection.skippedTables
        try TidemarkError.requireKnown(excluded, among: names)
    }
}
