import GRDB
import Logging
import TidemarkCore
import TidemarkSQL

/// Follows the tables of a served database after any program has altered them.
///
/// New content becomes part of the history, so that devices with an older schema receive it in order.
///
/// - A new table that can be synced: capture its rows as creations. Other new tables stay unsynced.
/// - A new column: capture the rows whose value differs from the column's fill, the value that older
///   rows got. The schema carries the fill to devices.
/// - A renamed column keeps its history, because PostgreSQL's column number identifies it.
/// - If rows may have changed uncaptured, the zones start new histories. Devices then take a snapshot
///   and judge their waiting edits.
///
/// Locks on the zones, then on the changed tables, keep writers out meanwhile.
struct FollowTables {
    let pg: PostgresConnection
    let logger: Logger

    /// Updates bookkeeping and capture, in the caller's transaction, which holds ``OpenDatabase/lock``.
    ///
    /// Devices get the statements of `declared`, in SQLite's dialect, that match the tables.
    func run(declared: SyncSchema? = nil) throws -> PostgresSchema {
        guard let record = try ServedRecord.load(pg) else { throw OpenDatabase.nothingToServe }
        var state = try readState(record)
        if state.isFollowed { return try PostgresSchema(record, at: state.position, pg) }
        try lockZones()
        // Another program may alter tables before the locks hold, so read until nothing changes.
        while true {
            try lock(state)
            let stateBefore = state
            state = try readState(record)
            if state.position == stateBefore.position { break }
        }
        let newRecord = try follow(state, declared)
        let position = CataloguePosition(version: newRecord.version, fingerprint: state.position.fingerprint)
        return try PostgresSchema(newRecord, at: position, pg)
    }

    /// Returns the error for clients if altered tables cannot be synced.
    static func unavailable(_ problem: UnsyncableSchema) -> TidemarkError {
        TidemarkError(
            .unavailable, "The database's tables were altered, and cannot be synced any more.",
            fix: "Repair them in the database. \(problem.description)")
    }

    // MARK: State

    /// The served tables by the record, and by the catalogue.
    private struct State {
        let record: ServedRecord
        /// The catalogue's position before the tables were read.
        let position: CataloguePosition
        let adoption: AdoptTables
        /// The syncable tables, as a device would declare them.
        let actual: SyncSchema
        let catalogue: [String: CatalogueTable]
        let differences: [String: TableDifference]
        /// Tables with writes that the triggers could not read.
        let unseen: Set<String>
        let objects: FileObjects

        var new: [String] { actual.tables.map(\.name).filter { record.schema.byName[$0] == nil } }
        var gone: [String] { record.schema.tables.map(\.name).filter { actual.byName[$0] == nil }.sorted() }

        var isFollowed: Bool {
            new.isEmpty && gone.isEmpty && unseen.isEmpty && differences.isEmpty && catalogue == record.catalogue
                && objects == record.schema.objects
                && record.schema.tables.allSatisfy { servedTable in
                    actual.byName[servedTable.name].map { Self.hasSameConstraints(servedTable, $0) } ?? false
                }
        }

        /// Whether required columns, references and unique constraints are unchanged.
        private static func hasSameConstraints(_ servedTable: SyncedTable, _ actual: SyncedTable) -> Bool {
            let required = { (table: SyncedTable) in Set(table.valueColumns.filter(\.isNotNull).map(\.name)) }
            return required(servedTable) == required(actual) && Set(servedTable.references) == Set(actual.references)
                && Set(servedTable.uniques) == Set(actual.uniques)
        }

        init(_ follow: FollowTables, _ record: ServedRecord) throws {
            self.record = record
            position = try CataloguePosition.now(of: record.namespace, zone: "", follow.pg)
            let plain = record.schema.tables.filter { $0.keyKind == .general && $0.key.count == 1 }
            var adoption = AdoptTables(
                pg: follow.pg, namespace: record.namespace, zoneColumn: record.zoneColumn, excluding: record.excluded,
                keys: Dictionary(uniqueKeysWithValues: record.schema.tables.map { ($0.name, $0.key) }),
                served: Set(record.schema.tables.map(\.name)), plainKeys: Set(plain.map(\.name)))
            adoption.deviceTypes = DeviceTypes(profile: record.deviceTypes)
            adoption.servedTypes = ServedTypes(schema: record.schema, catalogue: record.catalogue)
            adoption.computedColumns = try TableText.computedColumns(record.schema)
            self.adoption = adoption
            actual = try follow.actual(adoption, record)
            catalogue = try CatalogueTable.read(
                actual.tables.map(\.name), namespace: record.namespace, zoneColumn: record.zoneColumn, follow.pg)
            // A file that became the database had notes of its own.
            let found = try adoption.migrationObjects()
            objects = found.isEmpty ? record.schema.objects : found
            unseen = Set(try follow.pg.query("SELECT DISTINCT tbl FROM tidemark.unseen").map { $0.text(0) })
            var differences: [String: TableDifference] = [:]
            for servedTable in record.schema.tables {
                guard let table = actual.byName[servedTable.name], let now = catalogue[servedTable.name] else {
                    continue
                }
                var difference = TableDifference(
                    servedTable: servedTable, before: record.catalogue[servedTable.name], now: now, actual: table)
                if unseen.contains(servedTable.name) { difference.isRebuilt = true }
                if !difference.isEmpty { differences[servedTable.name] = difference }
            }
            self.differences = differences
        }
    }

    /// Reads a consistent state, and repeats that if a program alters tables meanwhile.
    private func readState(_ record: ServedRecord) throws -> State {
        while true {
            let state = try State(self, record)
            let position = try CataloguePosition.now(of: record.namespace, zone: "", pg)
            if position == state.position { return state }
        }
    }

    /// Describes the syncable tables, and logs new ones that cannot be synced.
    private func actual(_ adoption: AdoptTables, _ record: ServedRecord) throws -> SyncSchema {
        var adoption = adoption
        while true {
            let (tables, problems) = try adoption.survey()
            let (ofServed, ofOthers) = Self.divide(problems, record)
            guard ofServed.isEmpty else { throw UnsyncableSchema(problems: ofServed) }
            for problem in ofOthers { log(problem) }
            do {
                return try DatabaseQueue().write { db in
                    for table in tables { try db.execute(sql: table.statement) }
                    return try SchemaIntrospection(db).makeSchema()
                }
            } catch let unsyncable as UnsyncableSchema {
                let (ofServed, ofOthers) = Self.divide(unsyncable.problems, record)
                guard ofServed.isEmpty else { throw unsyncable }
                for problem in ofOthers { log(problem) }
                adoption.excluding.formUnion(ofOthers.map(\.table))
            }
        }
    }

    private static func divide(_ problems: [SchemaProblem], _ record: ServedRecord) -> (
        ofServed: [SchemaProblem], ofOthers: [SchemaProblem]
    ) {
        let isServed = { (problem: SchemaProblem) in record.schema.byName[problem.table] != nil }
        return (problems.filter(isServed), problems.filter { !isServed($0) })
    }

    private func log(_ problem: SchemaProblem) {
        logger.warning(
            "a new table is not synced", metadata: ["table": "\(problem.table)", "reason": "\(problem.reason)"])
    }

    // MARK: Locks

    /// Locks all zones: waits for running commits, and makes later ones see the new tables.
    private func lockZones() throws { try pg.query("SELECT zone FROM tidemark.zone ORDER BY zone FOR UPDATE") }

    /// Locks the changed tables: waits for programs whose writes the old triggers capture.
    private func lock(_ state: State) throws {
        let changed = (state.new + state.differences.keys).sorted().map {
            "\(SQLText.name(state.record.namespace)).\(SQLText.name($0))"
        }
        guard !changed.isEmpty else { return }
        try pg.execute("LOCK TABLE \(changed.joined(separator: ", ")) IN SHARE ROW EXCLUSIVE MODE")
    }

    // MARK: Following

    /// Returns policies under the new names of renamed columns.
    private func policies(_ policies: [String: ConflictPolicy], following differences: [String: TableDifference])
        -> [String: ConflictPolicy]
    {
        let names = differences.reduce(into: [String: String]()) { names, difference in
            for rename in difference.value.renamed {
                names["\(difference.key).\(rename.old)"] = "\(difference.key).\(rename.new)"
            }
        }
        return Dictionary(policies.map { (names[$0.key] ?? $0.key, $0.value) }, uniquingKeysWith: { first, _ in first })
    }

    private func follow(_ state: State, _ declared: SyncSchema?) throws -> ServedRecord {
        var record = state.record
        let problems = state.differences.sorted { $0.key < $1.key }.flatMap {
            record.schema.history.problems(with: $0.value, of: $0.key)
        }
        guard problems.isEmpty else { throw UnsyncableSchema(problems: problems) }
        let text = TableText(
            served: record.schema, actual: state.actual, declared: declared, catalogue: state.catalogue)
        let tables = try text.tables(state.differences).map { table in
            record.schema.byName[table.name]?.traits.map { table.with(traits: $0) } ?? table
        }
        var history = record.schema.history
        let capture = CaptureAdditions(pg: pg, record: record)
        var fills: [String: [String: String]] = [:]
        for (table, difference) in state.differences {
            fills[table] = try capture.fills(of: difference.added, table, state.actual)
            history.add(difference, of: table, fills: fills[table, default: [:]])
        }
        // A table that was dropped and created again may have any rows, also those of devices.
        let recreated = Set(state.new).intersection(history.droppedTables)
        for table in state.new { history.addNewTable(table) }
        for table in state.gone { history.addDroppedTable(table) }
        let policies = policies(record.schema.policies, following: state.differences)
        record.schema = SyncSchema(tables: tables, policies: policies, history: history, objects: state.objects)
        try state.adoption.watch(state.objects.migrationTables)
        try state.adoption.deferReferences(of: Set(tables.map(\.name)))
        try install(state, record)
        let rebuilt = state.differences.filter(\.value.isRebuilt).map(\.key).sorted()
        try capture.discard(state.gone + rebuilt)
        for (name, difference) in state.differences.sorted(by: { $0.key < $1.key }) {
            guard let table = record.schema.byName[name] else { continue }
            try capture.rename(difference.renamed, of: name)
            try capture.add(difference.added, fills[name, default: [:]], of: stored(table, record))
        }
        for name in state.new where !recreated.contains(name) {
            guard let table = record.schema.byName[name] else { continue }
            try capture.create(stored(table, record))
        }
        try capture.recordOutside()
        try pg.query(
            "DELETE FROM tidemark.unseen WHERE tbl = ANY ($1::text[])", [PostgresArray.quoted(state.unseen.sorted())])
        if !rebuilt.isEmpty || !recreated.isEmpty { try renewEpochs() }
        // Later alterations still differ from this catalogue state.
        record.catalogue = state.catalogue.mapValues { table in
            var table = table
            table.isCaptured = true
            return table
        }
        record.version += 1
        try record.save(pg)
        return record
    }

    private func stored(_ table: SyncedTable, _ record: ServedRecord) throws -> PostgresTable {
        try PostgresCatalog.table(table, namespace: record.namespace, zoneColumn: record.zoneColumn, pg)
    }

    /// Installs the triggers of new and rebuilt tables, and the trigger functions of changed ones.
    private func install(_ state: State, _ record: ServedRecord) throws {
        for table in record.schema.tables {
            let isNew = state.new.contains(table.name)
            guard isNew || state.differences[table.name] != nil else { continue }
            let stored = try stored(table, record)
            let hasTriggers = state.catalogue[table.name]?.isCaptured == true
            try pg.execute(isNew || !hasTriggers ? CaptureTriggers.install(stored) : CaptureTriggers.function(stored))
        }
        for table in state.gone { try pg.execute(CaptureTriggers.uninstall(table)) }
    }

    /// Starts a new history of every zone, and records where the old one ended.
    private func renewEpochs() throws {
        try pg.execute(
            """
            INSERT INTO tidemark.lineage SELECT zone, epoch, revision FROM tidemark.zone
            ON CONFLICT (zone, epoch) DO UPDATE SET ended = excluded.ended;
            DELETE FROM tidemark.fingerprint;
            UPDATE tidemark.zone SET epoch = gen_random_uuid()::text
            """)
    }
}
