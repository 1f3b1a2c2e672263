import Foundation
import GRDB
import Logging
import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// Prepares bookkeeping, synced tables, capture and zones, in a transaction under a lock: several nodes may start.
struct OpenDatabase {
    let pg: PostgresConnection
    let options: PostgresStoreOptions

    /// The number of the advisory lock: "tidemark" in ASCII.
    static let lock = 0x7469_6465_6D61_726B

    struct Opened {
        let served: PostgresSchema
        /// New tables and columns, such as `table medal`.
        let additions: [String]
        let policyChanges: [PolicyChange]
    }

    func run() throws -> Opened {
        let version = try pg.integer("SHOW server_version_num") ?? 0
        guard version >= 150_000 else {
            throw TidemarkError(
                .unusableFile, "The database is PostgreSQL \(version / 10_000); 15 or newer is needed.",
                fix: "Serve a newer one.")
        }
        return try pg.transaction { try pg.scanning { try prepare() } }
    }

    private func prepare() throws -> Opened {
        // Another node may hold the lock for long, while it copies a large file.
        let lockTimeout = try pg.text("SHOW lock_timeout") ?? "0"
        try pg.execute("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0")
        try pg.query("SELECT pg_advisory_xact_lock(\(Self.lock))")
        try pg.execute("SET LOCAL lock_timeout = '\(lockTimeout)'")
        // Existing bookkeeping is not created again, because its locks could deadlock with working nodes.
        let hasBookkeeping = try pg.text("SELECT to_regclass('tidemark.served')") != nil
        let record = try hasBookkeeping ? ServedRecord.load(pg) : nil
        if let record { try checkDeviceTypes(of: record) }
        let isServed = record != nil
        let first = try isServed ? follow() : create()
        let additions = try isServed ? grow(first) : []
        let current = try additions.isEmpty ? first : follow()
        let (served, policyChanges) = try changePolicies(of: current)
        for zone in options.zones { try add(zone, served) }
        try requireLatest()
        if options.isRestored { try renewEpochs() }
        try checkSearchPath(isNew: !isServed)
        return Opened(served: served, additions: additions, policyChanges: policyChanges)
    }

    /// Refuses a role whose search path includes the bookkeeping: a program's `SELECT * FROM log` would read it.
    ///
    /// A database that is already served like this continues, with a warning in the log.
    private func checkSearchPath(isNew: Bool) throws {
        guard try pg.query("SELECT 'tidemark' = ANY (current_schemas(false))")[0].isTrue(0) else { return }
        let role = try pg.text("SELECT quote_ident(current_user)") ?? "tidemark"
        let reason = "The search path of the role \(role) includes the schema tidemark."
        let cure =
            "Use a role of another name, or ALTER ROLE \(role) SET search_path = \(SQLText.name(options.namespace))."
        guard isNew else { return options.logger.warning("\(reason)", metadata: ["cure": "\(cure)"]) }
        throw TidemarkError(.unusableFile, reason, fix: cure)
    }

    /// Changes the conflict policies that the operator names; other nodes read the record as after an altered table.
    private func changePolicies(of served: PostgresSchema) throws -> (PostgresSchema, [PolicyChange]) {
        let changes = try served.schema.changes(to: options.policies)
        guard !changes.isEmpty, var record = try ServedRecord.load(pg) else { return (served, []) }
        record.schema = SyncSchema(
            tables: record.schema.tables, policies: record.schema.policies(after: changes),
            history: record.schema.history, objects: record.schema.objects)
        record.version += 1
        try record.save(pg)
        return (try follow(), changes)
    }

    /// Creates the bookkeeping, and creates or adopts the tables.
    private func create() throws -> PostgresSchema {
        try pg.execute("CREATE SCHEMA IF NOT EXISTS tidemark")
        try pg.execute(JSONFunctions.sql)
        try pg.execute(FingerprintSQL.functions)
        try pg.execute(Bookkeeping.sql)
        try pg.execute(CaptureTriggers.sharedSQL)
        var record = try options.adopts ? adopt() : createTables()
        try JoinedTables.tryJoin(record.schema)
        for table in record.schema.tables {
            try pg.execute(
                CaptureTriggers.install(
                    PostgresCatalog.table(table, namespace: record.namespace, zoneColumn: record.zoneColumn, pg)))
        }
        record.catalogue = try CatalogueTable.read(
            record.schema.tables.map(\.name), namespace: record.namespace, zoneColumn: record.zoneColumn, pg)
        let others = try others(record)
        if options.adopts {
            try TidemarkError.requireKnown(options.excluding, among: others + record.schema.tables.map(\.name))
        }
        record.excluded = options.excluding.union(others)
        try record.save(pg)
        // Another program may have altered adopted tables meanwhile.
        guard !options.adopts else { return try follow() }
        let position = try CataloguePosition.now(of: record.namespace, zone: "", pg)
        return try PostgresSchema(record, at: position, pg)
    }

    /// Returns the existing tables that are not served.
    private func others(_ record: ServedRecord) throws -> [String] {
        try pg.query(
            """
            SELECT relname
            FROM pg_class
            WHERE relnamespace = to_regnamespace($1) AND relkind IN ('r', 'p') AND NOT relispartition
            """,
            [SQLText.name(record.namespace)]
        ).map { $0.text(0) }.filter { record.schema.byName[$0] == nil }
    }

    private func follow() throws -> PostgresSchema {
        let tables = FollowTables(pg: pg, logger: options.logger)
        let declared = try declaredSchema()
        do { return try tables.run(declared: declared) } catch let problem as UnsyncableSchema {
            throw FollowTables.unavailable(problem)
        }
    }

    private func adopt() throws -> ServedRecord {
        var adoption = AdoptTables(
            pg: pg, namespace: options.namespace, zoneColumn: options.zoneColumn, excluding: options.excluding,
            keys: options.keys)
        adoption.deviceTypes = options.deviceTypes ?? DeviceTypes()
        let statements = try adoption.statements()
        let scratch = try DatabaseQueue()
        let schema = try scratch.write { db in
            for statement in statements { try db.execute(sql: statement) }
            return try SchemaIntrospection(db).makeSchema()
        }
        guard !schema.tables.isEmpty else {
            throw TidemarkError(
                .unusableFile, "The schema \(options.namespace) has no tables to adopt.",
                fix: "Create them first, or start with --schema FILE.sql.")
        }
        try adoption.deferReferences(of: Set(schema.tables.map(\.name)))
        let numbered = try schema.with(lowestIDsOf: { try lowestID(of: $0) })
        var record = record(numbered, zoneColumn: options.zoneColumn)
        record.deviceTypes = adoption.deviceTypes.profile
        try checkDeviceTypes(of: record)
        return record
    }

    private func lowestID(of table: SyncedTable) throws -> Int64? {
        let name = "\(SQLText.name(options.namespace)).\(SQLText.name(table.name))"
        return try pg.integer("SELECT min(\(SQLText.name(table.key[0]))) FROM \(name)")
    }

    private func record(_ schema: SyncSchema, zoneColumn: String?) -> ServedRecord {
        ServedRecord(namespace: options.namespace, zoneColumn: zoneColumn, schema: schema, catalogue: [:], excluded: [])
    }

    /// Creates the tables of the schema, and copies its rows.
    private func createTables() throws -> ServedRecord {
        guard let source = try source() else { throw Self.nothingToServe }
        return try source.writeWithoutTransaction { db in
            let all = try SchemaIntrospection(db)
            try TidemarkError.requireKnown(options.excluding, among: all.tables.map(\.name) + all.skippedTables)
            let declared = options.keys.mapValues { TableTraits(key: $0) }
            let introspection = try SchemaIntrospection(db, excluding: options.excluding, traits: declared)
            try requireMakeable(introspection, db)
            let schema = try introspection.makeSchema().with { table in
                let key = SQLText.name(table.key[0])
                return try Int64.fetchOne(db, sql: "SELECT min(\(key)) FROM \(SQLText.name(table.name))")
            }
            guard !schema.tables.isEmpty else { throw Self.nothingToServe }
            try schema.requireNoRowids()
            let creation = CreateTables(
                db: db, schema: schema, namespace: options.namespace, zoneColumn: Self.zoneColumn(schema))
            let tables = try creation.tables()
            try pg.refuseTaken(
                schema.tables, in: options.namespace,
                fix: "Serve the existing tables with --adopt, or use an empty database.")
            for statement in try creation.statements(tables) { try pg.execute(statement) }
            try ImportRows(pg: pg, db: db, tables: tables).run()
            let served = SyncSchema(
                tables: schema.tables, policies: schema.policies, history: schema.history,
                objects: try MigrationTables.objects(in: db))
            return record(served, zoneColumn: Self.zoneColumn(schema))
        }
    }

    /// Throws all problems of the tables at once, of each rule.
    private func requireMakeable(_ introspection: SchemaIntrospection, _ db: Database) throws {
        let all = SyncSchema(tables: introspection.tables)
        let creation = CreateTables(db: db, schema: all, namespace: options.namespace, zoneColumn: Self.zoneColumn(all))
        var problems: [SchemaProblem] = []
        for rule in [{ _ = try introspection.makeSchema() }, all.requireNoRowids, { _ = try creation.tables() }] {
            do { try rule() } catch let error as UnsyncableSchema { problems += error.problems }
        }
        guard problems.isEmpty else { throw UnsyncableSchema(problems: problems) }
    }

    /// Opens an SQLite database with the tables: the operator's file, or the statements in memory.
    private func source() throws -> DatabaseQueue? {
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        if let path = options.filePath {
            configuration.readonly = true
            return try DatabaseQueue(path: path, configuration: configuration)
        }
        guard let text = options.schemaSQL else { return nil }
        let queue = try DatabaseQueue(configuration: configuration)
        try queue.writeWithoutTransaction { try $0.execute(sql: text) }
        return queue
    }

    private static func zoneColumn(_ schema: SyncSchema) -> String {
        let isTaken = schema.tables.contains { $0.columns.contains { $0.name == "zone" } }
        return isTaken ? "tidemark_zone" : "zone"
    }

    /// Reads the operator's schema, if there is one.
    private func declaredSchema() throws -> SyncSchema? {
        try source()?.writeWithoutTransaction { db in
            let declared = options.keys.mapValues { TableTraits(key: $0) }
            let introspection = try SchemaIntrospection(db, excluding: options.excluding, traits: declared)
            let schema = try introspection.makeSchema()
            try schema.requireNoRowids()
            return schema
        }
    }

    /// Creates the tables and columns that the database lacks, and returns them, such as `table medal`.
    private func grow(_ served: PostgresSchema) throws -> [String] {
        guard let source = try source(), let wanted = try declaredSchema(), let record = try ServedRecord.load(pg)
        else { return [] }
        return try source.writeWithoutTransaction { db in
            try GrowTables(
                pg: pg, db: db, wanted: wanted, record: record, generated: served.tables.mapValues(\.generated)
            ).run()
        }
    }

    /// Creates a zone if it does not exist; its existing rows are the first revision.
    private func add(_ zone: String, _ served: PostgresSchema) throws {
        guard try pg.text("SELECT 1 FROM tidemark.zone WHERE zone = $1", [zone]) == nil else { return }
        try ZoneName.requireChoosable(zone)
        guard zone.utf8.count <= CaptureTriggers.zoneBytesMax, !zone.isEmpty else {
            throw TidemarkError(
                .invalidArgument, "A zone's name has 1 to \(CaptureTriggers.zoneBytesMax) bytes.",
                fix: "Give --zone a shorter one.")
        }
        // Waits for running writers, because their triggers do not see the new zone.
        let names = served.tables.values.map(\.name).sorted()
        if !names.isEmpty { try pg.execute("LOCK TABLE \(names.joined(separator: ", ")) IN SHARE MODE") }
        let hasRows = served.tables.values.map {
            "EXISTS (SELECT 1 FROM \($0.name) AS app_row WHERE \($0.inZone("app_row")))"
        }.joined(separator: " OR ")
        try pg.query(
            """
            INSERT INTO tidemark.zone (zone, epoch, revision, horizon, adopted)
            SELECT $1, $2, revision, revision, revision
            FROM (SELECT (\(hasRows.isEmpty ? "false" : hasRows))::int AS revision) AS first
            ON CONFLICT DO NOTHING
            """,
            [zone, options.newEpoch.uuidString.lowercased()])
    }

    /// Refuses a zone whose log has revisions after the zone's own, because the next commit would fail.
    private func requireLatest() throws {
        let behind = try pg.query(
            """
            SELECT zone.zone, zone.revision, max(entry.revision)
            FROM tidemark.zone AS zone
            JOIN tidemark.revision AS entry ON entry.zone = zone.zone AND entry.revision > zone.revision
            GROUP BY zone.zone, zone.revision
            ORDER BY zone.zone
            LIMIT 1
            """
        ).map { ($0.text(0), $0.text(1), $0.text(2)) }.first
        guard let (zone, revision, log) = behind else { return }
        throw TidemarkError(
            .fileDamaged,
            "The zone \(zone) is at revision \(revision), but its log reaches \(log).",
            fix: """
                UPDATE tidemark.zone SET revision = \(log) WHERE zone = \
                \(SQLText.literal(zone)); or restore a backup.
                """)
    }

    /// Starts a new history of every zone, and records where the old one ended.
    private func renewEpochs() throws {
        try pg.execute(
            """
            INSERT INTO tidemark.lineage SELECT zone, epoch, revision FROM tidemark.zone
            ON CONFLICT (zone, epoch) DO UPDATE SET ended = excluded.ended
            """)
        // The lost history may have lent ids that the backup does not know.
        try pg.execute("SELECT nextval('tidemark.lent') FROM generate_series(1, \(IDLayout.lostMax))")
        try pg.query("UPDATE tidemark.zone SET epoch = $1", [options.newEpoch.uuidString.lowercased()])
    }

    static let nothingToServe = TidemarkError(
        .invalidArgument, "The database is not served yet, and no tables were named.",
        fix: "Name an SQLite file or --schema FILE.sql to create tables, or use --adopt for existing tables.")
}

extension PostgresConnection {
    /// Refuses tables that the database already has, so that no row of another program comes among synced ones.
    func refuseTaken(_ tables: [SyncedTable], in namespace: String, fix: String) throws {
        for table in tables {
            let name = "\(SQLText.name(namespace)).\(SQLText.name(table.name))"
            guard try text("SELECT to_regclass($1)", [name]) != nil else { continue }
            throw TidemarkError(
                .unusableFile, "The database already has a table \(namespace).\(table.name), which is not synced.",
                fix: fix, place: .init(table: table.name))
        }
    }
}
