import Foundation
import GRDB
import TidemarkCore
import TidemarkSQLite

/// Makes a database ready to be served: bookkeeping, the synced tables, capture and zones, in one
/// transaction under a lock, so that many nodes may start at once.
struct OpenDatabase {
    let pg: PostgresConnection
    let options: PostgresStoreOptions

    /// The lock's number: "tidemark" in ASCII, cut to what a number holds.
    static let lock = 0x7469_6465_6D61_726B

    ///
    /// What was done to a database.
    struct Opened {
        let served: PostgresSchema
        /// What was made of a schema that has more than the database.
        let made: [String]
        /// What became of the conflict policies.
        let policyChanges: [PolicyChange]
    }

    /// Does it.
    func run() throws -> Opened {
        let version = try pg.integer("SHOW server_version_num") ?? 0
        guard version >= 150_000 else {
            throw TidemarkError(
                .unusableFile,
                "The database is PostgreSQL \(version / 10_000); 15 or newer is needed.",
                fix: "Serve a newer one."
            )
        }
        try pg.execute("BEGIN")
        do {
            let opened = try pg.scanning { try prepare() }
            try pg.execute("COMMIT")
            return opened
        } catch {
            if pg.isUsable { try pg.execute("ROLLBACK") }
            throw error
        }
    }

    private func prepare() throws -> Opened {
        // Another node may be at it, and copy a large file.
        let patience = try pg.text("SHOW lock_timeout") ?? "0"
        try pg.execute("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0")
        try pg.query("SELECT pg_advisory_xact_lock(\(Self.lock))")
        try pg.execute("SET LOCAL lock_timeout = '\(patience)'")
        // Nothing is made anew while others may be at work: that would wait for them, and they for
        // it.
        let isMade = try pg.text("SELECT to_regclass('tidemark.served')") != nil
        if isMade, try pg.integer("SELECT layout FROM tidemark.served") == 3 {
            try pg.execute(Bookkeeping.sinceLayout3)
        }
        let isOlder = try isMade && pg.integer("SELECT layout FROM tidemark.served") == 4
        if isOlder { try pg.execute(Bookkeeping.sinceLayout4) }
        let isServed = try isMade && ServedRecord.load(pg) != nil
        let isEarlier = try isServed && giveIdentities()
        let opened = try isServed ? (follow(), grow()) : (make(), [])
        let followed = try opened.1.isEmpty ? opened.0 : follow()
        let (served, policyChanges) = try changePolicies(of: followed)
        if isOlder || isEarlier {
            for table in served.tables.values { try pg.execute(CaptureTriggers.function(table)) }
        }
        for zone in options.zones { try add(zone, served) }
        try requireLatest()
        if options.isRestored { try renewEpochs() }
        try checkSearchPath(isNew: !isServed)
        return Opened(served: served, made: opened.1, policyChanges: policyChanges)
    }

    /// Changes the conflict policies that the operator names; the record keeps all of them, and
    /// other nodes read it anew, as after an altered table.
    private func changePolicies(of served: PostgresSchema) throws -> (PostgresSchema, [PolicyChange]) {
        let changes = try served.schema.changes(to: options.policies)
        guard !changes.isEmpty, var record = try ServedRecord.load(pg) else { return (served, []) }
        record.schema = SyncSchema(
            tables: record.schema.tables,
            policies: record.schema.policies(after: changes),
            history: record.schema.history
        )
        record.version += 1
        try record.save(pg)
        return (try follow(), changes)
    }

    /// Makes the bookkeeping and the tables, or takes those that are there.
    private func make() throws -> PostgresSchema {
        try pg.execute("CREATE SCHEMA IF NOT EXISTS tidemark")
        try pg.execute(JSONFunctions.sql)
        try pg.execute(FingerprintSQL.functions)
        try pg.execute(Bookkeeping.sql)
        try pg.execute(CaptureTriggers.sharedSQL)
        var record = try options.adopts ? adopt() : create()
        for table in record.schema.tables {
            try pg.execute(
                CaptureTriggers.install(
                    PostgresCatalog.table(table, namespace: record.namespace, zoneColumn: record.zoneColumn, pg)
                )
            )
        }
        record.catalogue = try CatalogueTable.read(
            record.schema.tables.map(\.name),
            namespace: record.namespace,
            zoneColumn: record.zoneColumn,
            pg
        )
        let others = try others(record)
        if options.adopts {
            try TidemarkError.requireKnown(options.excluding, among: others + record.schema.tables.map(\.name))
        }
        record.excluded = options.excluding.union(others)
        try record.save(pg)
        // Tables that were there may have been altered since they were looked at.
        guard !options.adopts else { return try follow() }
        let position = try CataloguePosition.now(of: record.namespace, zone: "", pg)
        return try PostgresSchema(record, at: position, pg)
    }

    /// The tables that are there and are not served: they stay somebody else's.
    private func others(_ record: ServedRecord) throws -> [String] {
        try pg.query(
            """
            SELECT relname FROM pg_class
            WHERE relnamespace = to_regnamespace($1) AND relkind IN ('r', 'p') AND NOT relispartition
            """,
            [SQLText.name(record.namespace)]
        ).map { $0.text(0) }.filter { record.schema.byName[$0] == nil }
    }

    private func follow() throws -> PostgresSchema {
        let tables = FollowTables(pg: pg, logger: options.logger)
        let given = try wanted()
        do { return try tables.run(given: given) } catch let problem as UnsyncableSchema {
            throw FollowTables.unavailable(problem)
        }
    }

    /// Takes the tables that are there.
    private func adopt() throws -> ServedRecord {
        let adoption = AdoptTables(
            pg: pg,
            namespace: options.namespace,
            zoneColumn: options.zoneColumn,
            excluding: options.excluding
        )
        let statements = try adoption.statements()
        let scratch = try DatabaseQueue()
        let schema = try scratch.write { db in
            for statement in statements { try db.execute(sql: statement) }
            return try SchemaIntrospection(db).validated()
        }
        guard !schema.tables.isEmpty else {
            throw TidemarkError(
                .unusableFile,
                "The schema \(options.namespace) has no tables to adopt.",
                fix: "Make them first, or start with --schema FILE.sql."
            )
        }
        try adoption.deferReferences(of: Set(schema.tables.map(\.name)))
        return record(schema, zoneColumn: options.zoneColumn)
    }

    private func record(_ schema: SyncSchema, zoneColumn: String?) -> ServedRecord {
        ServedRecord(namespace: options.namespace, zoneColumn: zoneColumn, schema: schema, catalogue: [:], excluded: [])
    }

    /// Makes the tables of the schema, with the rows that it comes with.
    private func create() throws -> ServedRecord {
        guard let source = try source() else { throw Self.nothingToServe }
        return try source.writeWithoutTransaction { db in
            let all = try SchemaIntrospection(db)
            try TidemarkError.requireKnown(options.excluding, among: all.tables.map(\.name) + all.skipped)
            let introspection = try SchemaIntrospection(db, excluding: options.excluding)
            let schema = try introspection.validated()
            guard !schema.tables.isEmpty else { throw Self.nothingToServe }
            let creation = CreateTables(
                db: db,
                schema: schema,
                namespace: options.namespace,
                zoneColumn: Self.zoneColumn(schema)
            )
            let tables = try creation.tables()
            try refuseTaken(tables)
            for statement in try creation.statements(tables) { try pg.execute(statement) }
            try ImportRows(pg: pg, db: db, tables: tables).run()
            return record(schema, zoneColumn: Self.zoneColumn(schema))
        }
    }

    /// An SQLite database with the tables: the file that was named, or one in memory made by the
    /// statements.
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

    private func refuseTaken(_ tables: [PostgresTable]) throws {
        for table in tables where try pg.text("SELECT to_regclass($1)", [table.name]) != nil {
            throw TidemarkError(
                .unusableFile,
                "The database has a table \(options.namespace).\(table.table.name) already.",
                fix: "Serve the tables that are there with --adopt, or give an empty database.",
                place: .init(table: table.table.name)
            )
        }
    }

    /// The tables of the schema that was given, if so.
    private func wanted() throws -> SyncSchema? {
        try source()?.writeWithoutTransaction { db in
            try SchemaIntrospection(db, excluding: options.excluding).validated()
        }
    }

    /// Makes what the schema that was given has more than the database.
    ///
    /// - Returns: What was made, in words.
    private func grow() throws -> [String] {
        guard let source = try source(), let wanted = try wanted(), let record = try ServedRecord.load(pg) else {
            return []
        }
        return try source.writeWithoutTransaction { db in
            try GrowTables(pg: pg, db: db, wanted: wanted, record: record).run()
        }
    }

    /// Makes a zone, unless it is there; rows that it has already are its first revision.
    private func add(_ zone: String, _ served: PostgresSchema) throws {
        guard try pg.text("SELECT 1 FROM tidemark.zone WHERE zone = $1", [zone]) == nil else { return }
        guard zone.utf8.count <= CaptureTriggers.zoneBytesMax, !zone.isEmpty else {
            throw TidemarkError(
                .invalidArgument,
                "A zone's name has 1 to \(CaptureTriggers.zoneBytesMax) bytes.",
                fix: "Give --zone a shorter one."
            )
        }
        // Whoever writes rows of the zone just now has to end first: their triggers do not see it.
        let names = served.tables.values.map(\.name).sorted()
        if !names.isEmpty { try pg.execute("LOCK TABLE \(names.joined(separator: ", ")) IN SHARE MODE") }
        let rows = served.tables.values.map { "EXISTS (SELECT 1 FROM \($0.name) AS t WHERE \($0.inZone("t")))" }.joined(
            separator: " OR "
        )
        try pg.query(
            """
            INSERT INTO tidemark.zone (zone, epoch, revision, horizon, adopted)
            SELECT $1, $2, n, n, n FROM (SELECT (\(rows.isEmpty ? "false" : rows))::int AS n) AS first
            ON CONFLICT DO NOTHING
            """,
            [zone, options.newEpoch.uuidString.lowercased()]
        )
    }

    /// Refuses a zone whose log has later revisions than it says: no commit could get a number.
    private func requireLatest() throws {
        let behind = try pg.query(
            """
            SELECT z.zone, z.revision, max(r.revision) FROM tidemark.zone AS z
            JOIN tidemark.revision AS r ON r.zone = z.zone AND r.revision > z.revision
            GROUP BY z.zone, z.revision ORDER BY z.zone LIMIT 1
            """
        ).map { ($0.text(0), $0.text(1), $0.text(2)) }.first
        guard let (zone, revision, log) = behind else { return }
        throw TidemarkError(
            .fileDamaged,
            "The zone \(zone) says that it is at revision \(revision), but its log reaches \(log).",
            fix: """
                UPDATE tidemark.zone SET revision = \(log) WHERE zone = \
                \(SQLText.literal(zone)); or put a backup back.
                """
        )
    }

    /// Gives every zone another history, and notes where the old one ended.
    private func renewEpochs() throws {
        try pg.execute(
            """
            INSERT INTO tidemark.lineage SELECT zone, epoch, revision FROM tidemark.zone
            ON CONFLICT (zone, epoch) DO UPDATE SET ended = excluded.ended
            """
        )
        try pg.query("UPDATE tidemark.zone SET epoch = $1", [options.newEpoch.uuidString.lowercased()])
    }

    static let nothingToServe = TidemarkError(
        .invalidArgument,
        "The database is not served yet, and no tables were named.",
        fix: "Give an SQLite file or --schema FILE.sql to make tables, or --adopt to take those that are there."
    )
}
