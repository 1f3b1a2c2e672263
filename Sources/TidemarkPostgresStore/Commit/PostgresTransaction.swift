import GRDB
import TidemarkCore
import TidemarkServer
import TidemarkSQLite
import TidemarkStore

/// The engine's view of one transaction on one zone in PostgreSQL.
///
/// The request lies staged in an SQLite connection in memory; here are the questions and the writes
/// that concern the zone's rows and its bookkeeping, a few statements a table whatever the number
/// of records. Sets travel between the two as one JSON text each.
///
/// The zone's row is locked first and held to the end, so commits of a zone are serial and its
/// revisions dense. Other programs do not take that lock: what they commit while this transaction
/// runs is noticed where it matters, in the records that this one wrote as well, and then the
/// transaction begins anew (``Overtaken``).
final class PostgresTransaction: StoreTransaction {
    let pg: PostgresConnection
    let staged: StagedRequest
    /// The tables as they are.
    let served: PostgresSchema
    let zoneName: String
    let now: Int64
    /// The zone as this transaction has made it; written when it ends.
    var state: ZoneState
    var notes: Int64
    /// Who held rows that were needed, for the log.
    var holders: [RowHolder] = []
    /// Whether nothing was done, so that there is nothing to commit.
    var isVoid = false
    let adopted: Int64
    /// What the bookkeeping said when the transaction began.
    var facts: GroupFacts
    /// What is written in the round trip of the commit.
    var tail: [PostgresStatement] = []
    /// Ids that were drawn from a table's sequence for a plan that did not do: drawn once, they are
    /// nobody else's.
    var drawn: [String: [Int64]] = [:]
    /// The next ids of tables without a sequence, of which some are given already.
    var given: [String: Int64] = [:]
    private let written: (state: ZoneState, notes: Int64)

    var db: Database { staged.db }
    var schema: SyncSchema { staged.schema }
    var tables: [String: PostgresTable] { served.tables }

    /// What is thrown when another program has committed a change of a record that this transaction
    /// changed too, unseen.
    struct Overtaken: Error {}

    /// What is thrown when the tables are not those any more that are known.
    struct TablesAltered: Error {}

    /// Begins a transaction and locks a zone, in one round trip.
    ///
    /// `question` is what is going to be asked of the zone's bookkeeping, and is asked with it.
    /// With `isPatient`, tables that somebody has altered may be served as they were until somebody
    /// can follow.
    ///
    /// `rowPatience` is how long it waits for a row that another program holds, in milliseconds.
    ///
    /// - Throws: `unknownZone` when there is none of that name; ``TablesAltered``.
    init(
        _ pg: PostgresConnection,
        _ db: Database,
        zone: String,
        served: PostgresSchema,
        isPatient: Bool = false,
        question: GroupQuestion? = nil,
        rowPatience: Int,
        now: Int64
    ) throws {
        self.pg = pg
        zoneName = zone
        self.now = now
        self.served = served
        guard !zone.utf8.contains(0) else { throw Self.unknownZone }
        let results = try Self.begin(pg, zone, served, question, rowPatience: rowPatience)
        let rows = results[1]
        guard !rows.isEmpty else { throw Self.unknownZone }
        let position = CataloguePosition(results[2])
        guard position == served.position || isPatient && position.version == served.position.version else {
            throw TablesAltered()
        }
        try pg.prepareAnew(for: position)
        facts = GroupFacts(question, results.dropFirst(4))
        let row = rows[0]
        state = ZoneState(
            epoch: row.text(0),
            revision: row.integer(1) ?? 0,
            horizon: row.integer(2) ?? 0,
            schema: served.hash,
            time: row.integer(3) ?? 0
        )
        notes = row.integer(4) ?? 0
        adopted = row.integer(5) ?? 0
        written = (state, notes)
        try EngineConnection.prepare(db, schema: served.schema)
        try PostgresText.prepare(db, served)
        staged = try StagedRequest(db, schema: served.schema)
    }

    private static func begin(
        _ pg: PostgresConnection,
        _ zone: String,
        _ served: PostgresSchema,
        _ question: GroupQuestion?,
        rowPatience: Int
    ) throws -> [PostgresRows] {
        do {
            return try pg.run(
                [
                    PostgresStatement("BEGIN"),
                    // The triggers are told whose transaction it is.
                    PostgresStatement(
                        """
                        SELECT epoch, revision, horizon, time, notes, adopted,
                            set_config('tidemark.zone', zone, true)
                        FROM tidemark.zone WHERE zone = $1 FOR NO KEY UPDATE
                        """,
                        [zone]
                    ),
                    // Asked when the lock is there: whoever follows holds it too.
                    CataloguePosition.statement(of: served.namespace, zone: zone),
                    // The zone is waited for longer than a row.
                    PostgresStatement("SET LOCAL lock_timeout = \(rowPatience)"),
                ] + (question?.statements(zone: zone, shape: served.shape) ?? [])
            )
        } catch var failure as PostgresFailure {
            failure.isBeforeBegin = true
            throw failure
        }
    }

    static let unknownZone = TidemarkError(
        .unknownZone,
        "There is no zone of that name that you may read.",
        fix: "Check the zone's name in the path."
    )

    /// Writes what is left and the zone's row, and commits, in one round trip.
    ///
    /// PostgreSQL answers `COMMIT` of a transaction that has failed before with `ROLLBACK`, which
    /// is no error to it.
    func commit() throws {
        var statements = tail
        if state != written.state || notes != written.notes {
            statements.append(
                PostgresStatement(
                    """
                    UPDATE tidemark.zone SET revision = $2::bigint, horizon = $3::bigint, time = $4::bigint,
                        notes = $5::bigint
                    WHERE zone = $1
                    """,
                    [zoneName, "\(state.revision)", "\(state.horizon)", "\(state.time)", "\(notes)"]
                )
            )
        }
        let results = try pg.run(statements + [PostgresStatement("COMMIT")])
        guard results.last?.command == "COMMIT" else {
            throw PostgresFailure(state: "40000", message: "the transaction was rolled back")
        }
    }

    func zone() throws -> ZoneState { state }

    func end(of epoch: String) throws -> Int64? {
        try pg.integer("SELECT ended FROM tidemark.lineage WHERE zone = $1 AND epoch = $2", [zoneName, epoch])
    }

    func policy(of table: String) throws -> (table: ConflictPolicy, columns: [String: ConflictPolicy]) {
        (schema.policy(of: table), schema.columnPolicies(of: table))
    }

    func stage(_ body: [UInt8], limits: Limits) throws -> SyncRequest {
        let request = try staged.stage(body, limits: limits)
        try staged.placing {
            try PostgresText.refuseMisfits(in: db)
            try spellKeys()
        }
        return request
    }

    func stage(together bodies: [[UInt8]], limits: Limits) throws -> [SyncRequest]? {
        guard let requests = try staged.stage(together: bodies, limits: limits) else { return nil }
        do {
            try PostgresText.refuseMisfits(in: db)
            try spellKeys()
            return requests
        } catch is TidemarkError {
            // Whose body it is in is told when that is staged by itself.
            return nil
        }
    }

    func isolated<Success>(_ body: () throws -> Success) throws -> Result<Success, any Error> {
        do { return .success(try undoable(body)) } catch let failure as PostgresFailure
            where pg.isUsable && failure.state == "55P03"
        { return .failure(try heldByOthers()) } catch  where pg.isUsable && !Self.endsTransaction(error) {
            return .failure(error)
        }
    }

    /// Whether an error concerns everybody whose requests share the transaction: the database is
    /// gone or full, or another program was in the way.
    private static func endsTransaction(_ error: any Error) -> Bool {
        if error is Overtaken { return true }
        guard let failure = error as? PostgresFailure else { return false }
        return failure.isDisconnected || failure.isTransient
            || ["25", "40", "53", "57", "58", "XX"].contains(String(failure.state.prefix(2)))
    }

    func attempt<Result>(_ body: () throws -> Result) throws -> Result {
        try undoable {
            // References are checked at the end of the change set.
            try pg.execute("SET CONSTRAINTS ALL DEFERRED")
            return try body()
        }
    }

    private func undoable<Result>(_ body: () throws -> Result) throws -> Result {
        let before = state
        let notesBefore = notes
        try pg.execute("SAVEPOINT attempt")
        do {
            var result: Result?
            try db.inSavepoint {
                result = try body()
                return .commit
            }
            try pg.execute("RELEASE attempt")
            guard let result else {
                throw TidemarkError(.internalFailure, "A savepoint ended without a result.", fix: "Please report this.")
            }
            return result
        } catch {
            state = before
            notes = notesBefore
            guard pg.isUsable else { throw error }
            try pg.execute("ROLLBACK TO attempt; RELEASE attempt")
            throw error
        }
    }

    /// Moves the zone to the next revision.
    func nextRevision() -> Int64 {
        change(revision: state.revision + 1)
        return state.revision
    }

    func change(revision: Int64? = nil, horizon: Int64? = nil, time: Int64? = nil) {
        state = ZoneState(
            epoch: state.epoch,
            revision: revision ?? state.revision,
            horizon: horizon ?? state.horizon,
            schema: state.schema,
            time: time ?? state.time
        )
    }

    /// A table by name.
    func table(_ name: String) -> PostgresTable? { tables[name] }

    /// Numbers as an array of PostgreSQL's.
    static func array(_ numbers: [Int64]) -> String { "{\(numbers.map(String.init).joined(separator: ","))}" }

    /// Texts without special characters, as an array of PostgreSQL's.
    static func array(_ texts: [String]) -> String { "{\(texts.map { "\"\($0)\"" }.joined(separator: ","))}" }
}
