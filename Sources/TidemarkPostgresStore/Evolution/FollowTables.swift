import Foundation
import GRDB
import Logging
import TidemarkCore
import TidemarkSQLite

/// Follows the tables of a served database, which any program may alter: what is new in them
/// becomes part of the history, so that devices which know an older schema get it in its turn.
///
/// - A new table's rows are captured as created, when it can be synced; otherwise it is left alone.
/// - A new column's rows are captured where they have another value than the one that rows got when
///   it was added, which travels with the schema as the column's fill.
/// - A renamed column keeps its history: PostgreSQL numbers columns, so it is told from another
///   one.
/// - Where rows may have changed unseen, zones begin another history, and devices take a snapshot
///   and judge what waits.
///
/// Nobody writes meanwhile: the zones are locked, then the tables that changed.
struct FollowTables {
    let pg: PostgresConnection
    let logger: Logger

    /// Brings bookkeeping and capture up to the tables, inside a transaction of the caller's that
    /// holds ``OpenDatabase/lock``.
    ///
    /// `given` are tables in SQLite's words whose text devices shall get, where it says what the
    /// tables are.
    func run(given: SyncSchema? = nil) throws -> PostgresSchema {
        guard let record = try ServedRecord.load(pg) else { throw OpenDatabase.nothingToServe }
        var state = try look(record)
        if state.isFollowed { return try PostgresSchema(record, at: state.position, pg) }
        try lockZones()
        // What was altered, or written unseen, until the locks were there belongs to it.
        while true {
            try lock(state)
            let locked = state
            state = try look(record)
            if state.position == locked.position { break }
        }
        let followed = try follow(state, given)
        let position = CataloguePosition(version: followed.version, fingerprint: state.position.fingerprint)
        return try PostgresSchema(followed, at: position, pg)
    }

    /// What clients are told when the tables can not be synced any more.
    static func unavailable(_ problem: UnsyncableSchema) -> TidemarkError {
        TidemarkError(
            .unavailable,
            "The tables of the database were altered so that they cannot be synced.",
            fix: "Mend them in the database. \(problem.description)"
        )
    }

    // MARK: What is there

    /// The tables that are known, and as they are.
    private struct State {
        let record: ServedRecord
        /// The catalogue's when it began to be read.
        let position: CataloguePosition
        let adoption: AdoptTables
        /// The tables that can be synced, as a device would have them.
        let actual: SyncSchema
        let catalogue: [String: CatalogueTable]
        let differences: [String: TableDifference]
        /// Tables that were written to by whoever the triggers did not understand.
        let unseen: Set<String>

        var new: [String] { actual.tables.map(\.name).filter { record.schema.byName[$0] == nil } }
        var gone: [String] { record.schema.tables.map(\.name).filter { actual.byName[$0] == nil }.sorted() }

        var isFollowed: Bool {
            new.isEmpty && gone.isEmpty && unseen.isEmpty && differences.isEmpty && catalogue == record.catalogue
                && record.schema.tables.allSatisfy { known in
                    actual.byName[known.name].map { Self.saysTheSame(known, $0) } ?? false
                }
        }

        /// Whether what devices are told of keys, references and unique values is still true.
        private static func saysTheSame(_ known: SyncedTable, _ actual: SyncedTable) -> Bool {
            let required = { (table: SyncedTable) in Set(table.valueColumns.filter(\.isNotNull).map(\.name)) }
            return required(known) == required(actual) && Set(known.references) == Set(actual.references)
                && Set(known.uniques) == Set(actual.uniques)
        }

        init(_ follow: FollowTables, _ record: ServedRecord) throws {
            self.record = record
            position = try CataloguePosition.now(of: record.namespace, zone: "", follow.pg)
            let plain = record.schema.tables.filter { $0.keyKind == .general && $0.key.count == 1 }
            adoption = AdoptTables(
                pg: follow.pg,
                namespace: record.namespace,
                zoneColumn: record.zoneColumn,
                excluding: record.excluded,
                served: Set(record.schema.tables.map(\.name)),
                plainKeys: Set(plain.map(\.name))
            )
            actual = try follow.actual(adoption, record)
            catalogue = try CatalogueTable.read(
                actual.tables.map(\.name),
                namespace: record.namespace,
                zoneColumn: record.zoneColumn,
                follow.pg
            )
            unseen = Set(try follow.pg.query("SELECT DISTINCT tbl FROM tidemark.unseen").map { $0.text(0) })
            var differences: [String: TableDifference] = [:]
            for known in record.schema.tables {
                guard let table = actual.byName[known.name], let now = catalogue[known.name] else { continue }
                var difference = TableDifference(
                    known: known,
                    before: record.catalogue[known.name],
                    now: now,
                    actual: table
                )
                if unseen.contains(known.name) { difference.isRebuilt = true }
                if !difference.isEmpty { differences[known.name] = difference }
            }
            self.differences = differences
        }
    }

    /// Reads it all as it is at one moment: anew, when somebody alters tables meanwhile.
    private func look(_ record: ServedRecord) throws -> State {
        while true {
            let state = try State(self, record)
            let position = try CataloguePosition.now(of: record.namespace, zone: "", pg)
            if position == state.position { return state }
        }
    }

    /// The tables that can be synced; a new one that cannot be is somebody else's, and is named in
    /// the log.
    private func actual(_ adoption: AdoptTables, _ record: ServedRecord) throws -> SyncSchema {
        var adoption = adoption
        while true {
            let (found, problems) = try adoption.survey()
            let (mine, others) = Self.divide(problems, record)
            guard mine.isEmpty else { throw UnsyncableSchema(problems: mine) }
            for problem in others { note(problem) }
            do {
                return try DatabaseQueue().write { db in
                    for table in found { try db.execute(sql: table.statement) }
                    return try SchemaIntrospection(db).validated()
                }
            } catch let unsyncable as UnsyncableSchema {
                let (mine, others) = Self.divide(unsyncable.problems, record)
                guard mine.isEmpty else { throw unsyncable }
                for problem in others { note(problem) }
                adoption.excluding.formUnion(others.map(\.table))
            }
        }
    }

    private static func divide(_ problems: [SchemaProblem], _ record: ServedRecord) -> (
        known: [SchemaProblem], others: [SchemaProblem]
    ) {
        let isKnown = { (problem: SchemaProblem) in record.schema.byName[problem.table] != nil }
        return (problems.filter(isKnown), problems.filter { !isKnown($0) })
    }

    private func note(_ problem: SchemaProblem) {
        logger.warning(
            "a new table is not synced",
            metadata: ["table": "\(problem.table)", "reason": "\(problem.reason)"]
        )
    }

    // MARK: Locks

    /// Waits until no request is in the middle of something: whoever begins next sees what is new.
    private func lockZones() throws { try pg.query("SELECT zone FROM tidemark.zone ORDER BY zone FOR UPDATE") }

    /// Waits until whoever writes rows that the old triggers capture has ended.
    private func lock(_ state: State) throws {
        let changed = (state.new + state.differences.keys).sorted().map {
            "\(SQLText.name(state.record.namespace)).\(SQLText.name($0))"
        }
        guard !changed.isEmpty else { return }
        try pg.execute("LOCK TABLE \(changed.joined(separator: ", ")) IN SHARE ROW EXCLUSIVE MODE")
    }

    // MARK: Following

    private func follow(_ state: State, _ given: SyncSchema?) throws -> ServedRecord {
        var record = state.record
        let problems = state.differences.sorted { $0.key < $1.key }.flatMap {
            record.schema.history.problems(with: $0.value, of: $0.key)
        }
        guard problems.isEmpty else { throw UnsyncableSchema(problems: problems) }
        let text = TableText(known: record.schema, actual: state.actual, given: given)
        let tables = try text.tables(state.differences)
        var history = record.schema.history
        let capture = CaptureAdditions(pg: pg, record: record)
        var fills: [String: [String: String]] = [:]
        for (table, difference) in state.differences {
            fills[table] = try capture.fills(of: difference.added, table, state.actual)
            history.take(difference, of: table, fills: fills[table, default: [:]])
        }
        // A table that was gone and is back may have any rows, also such as devices have of it.
        let back = Set(state.new).intersection(history.droppedTables)
        for table in state.new { history.takeNew(table) }
        for table in state.gone { history.takeGone(table) }
        record.schema = SyncSchema(tables: tables, policies: record.schema.policies, history: history)
        try state.adoption.deferReferences(of: Set(tables.map(\.name)))
        try install(state, record)
        let rebuilt = state.differences.filter(\.value.isRebuilt).map(\.key).sorted()
        try capture.forget(state.gone + rebuilt)
        for (name, difference) in state.differences.sorted(by: { $0.key < $1.key }) {
            guard let table = record.schema.byName[name] else { continue }
            try capture.rename(difference.renamed, of: name)
            try capture.add(difference.added, fills[name, default: [:]], of: stored(table, record))
        }
        for name in state.new where !back.contains(name) {
            guard let table = record.schema.byName[name] else { continue }
            try capture.create(stored(table, record))
        }
        try capture.noteOutside()
        try pg.query(
            "DELETE FROM tidemark.unseen WHERE tbl = ANY ($1::text[])",
            [PostgresArray.quoted(state.unseen.sorted())]
        )
        if !rebuilt.isEmpty || !back.isEmpty { try renewEpochs() }
        // What somebody has altered since then is still to be found.
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

    /// Makes the triggers of new and of rebuilt tables, and the functions of those that changed.
    private func install(_ state: State, _ record: ServedRecord) throws {
        for table in record.schema.tables {
            let isNew = state.new.contains(table.name)
            guard isNew || state.differences[table.name] != nil else { continue }
            let stored = try stored(table, record)
            let hasTriggers = state.catalogue[table.name]?.isCaptured == true
            try pg.execute(isNew || !hasTriggers ? CaptureTriggers.install(stored) : CaptureTriggers.function(stored))
        }
        for table in state.gone { try pg.execute(CaptureTriggers.forget(table)) }
    }

    /// Gives every zone another history; what the old one had is known, so nothing was forgotten.
    private func renewEpochs() throws {
        try pg.execute(
            """
            INSERT INTO tidemark.lineage SELECT zone, epoch, revision FROM tidemark.zone
            ON CONFLICT (zone, epoch) DO UPDATE SET ended = excluded.ended;
            DELETE FROM tidemark.fingerprint;
            UPDATE tidemark.zone SET epoch = gen_random_uuid()::text
            """
        )
    }
}
