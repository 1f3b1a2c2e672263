import GRDB
import TidemarkCore
import TidemarkEngine
import TidemarkSQL
import TidemarkStoreSupport

/// The engine's view of one transaction on one zone in PostgreSQL.
///
/// An in-memory SQLite connection stages the request. This type reads and writes the zone's rows and
/// bookkeeping in PostgreSQL, with a few statements per table for any number of records. A set of
/// records travels between the two databases as one JSON text.
///
/// The transaction locks the zone's row first and to its end, so commits of a zone are serial and its
/// revisions dense. Other programs do not take that lock. If one commits a change of the same records
/// meanwhile, the transaction starts again (``Overtaken``).
final class PostgresTransaction: StoreTransaction {
    let pg: PostgresConnection
    let staged: StagedRequest
    /// The served tables.
    let served: PostgresSchema
    let zoneName: String
    let now: Int64
    /// The zone's new state, which the commit writes.
    var state: ZoneState
    /// The number of the zone's last note of overruled values.
    var notes: Int64
    /// Other programs that held required rows, for the log.
    var holders: [RowHolder] = []
    /// Whether the transaction had no effect, so that it needs no commit.
    var isVoid = false
    /// The revision of rows that existed before the zone.
    let adopted: Int64
    /// The bookkeeping's answers from the beginning of the transaction.
    var facts: GroupFacts
    /// Statements to run in the round trip of the commit.
    var tail: [PostgresStatement] = []
    /// Ids from a table's sequence that an abandoned plan left unused.
    var spareIDsByTable: [String: [Int64]] = [:]
    /// The next id of each table without a sequence.
    var nextIDByTable: [String: Int64] = [:]
    private let stored: (state: ZoneState, notes: Int64)

    var db: Database { staged.db }
    var schema: SyncSchema { staged.schema }
    var tables: [String: PostgresTable] { served.tables }

    /// Another program committed an unabsorbed change of a record that this transaction uses.
    struct Overtaken: Error {}

    /// A program altered the tables after this node last read them.
    struct TablesAltered: Error {}

    /// Begins a transaction and locks a zone, in one round trip.
    ///
    /// The round trip includes the queries of `question`. With `allowStaleSchema`, the transaction
    /// serves altered tables by their old schema. `rowPatience` is the maximum wait for a row that
    /// another program holds, in milliseconds.
    ///
    /// - Throws: `unknownZone` if the zone does not exist; ``TablesAltered``.
    init(
        _ pg: PostgresConnection,
        _ db: Database,
        zone: String,
        served: PostgresSchema,
        allowStaleSchema: Bool = false,
        question: GroupQuestion? = nil,
        rowPatience: Int,
        now: Int64
    ) throws {
        self.pg = pg
        zoneName = zone
        self.now = now
        self.served = served
        guard !zone.utf8.contains(0) else { throw Self.unknownZone }
        let results = try Self.begin(pg, zone: zone, served: served, question: question, rowPatience: rowPatience)
        let rows = results[1]
        guard !rows.isEmpty else { throw Self.unknownZone }
        let position = CataloguePosition(results[2])
        guard position == served.position || allowStaleSchema && position.version == served.position.version else {
            throw TablesAltered()
        }
        try pg.deallocateStatements(ifAlteredAt: position)
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
        stored = (state, notes)
        try EngineConnection.prepare(db, schema: served.schema)
        try PostgresText.prepare(db, served)
        staged = try StagedRequest(db, schema: served.schema)
    }

    private static func begin(
        _ pg: PostgresConnection,
        zone: String,
        served: PostgresSchema,
        question: GroupQuestion?,
        rowPatience: Int
    ) throws -> [PostgresRows] {
        do {
            return try pg.run(
                [
                    PostgresStatement("BEGIN"),
                    // The setting tells the capture triggers the transaction's own zone.
                    PostgresStatement(
                        """
                        SELECT epoch, revision, horizon, time, notes, adopted,
                            set_config('tidemark.zone', zone, true)
                        FROM tidemark.zone
                        WHERE zone = $1
                        FOR NO KEY UPDATE
                        """,
                        [zone]
                    ),
                    // Runs under the zone's lock, which a node that follows tables also takes.
                    CataloguePosition.statement(of: served.namespace, zone: zone),
                    // Rows get a shorter timeout than the zone's lock.
                    PostgresStatement("SET LOCAL lock_timeout = \(rowPatience)"),
                ] + (question?.statements(zone: zone, layoutHash: served.fingerprintLayoutHash) ?? [])
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

    /// Writes the remaining statements and the zone's row, and commits, in one round trip.
    ///
    /// PostgreSQL answers `COMMIT` of a failed transaction with `ROLLBACK`, without an error.
    func commit() throws {
        var statements = tail
        if state != stored.state || notes != stored.notes {
            statements.append(
                PostgresStatement(
                    """
                    UPDATE tidemark.zone
                    SET revision = $2::bigint, horizon = $3::bigint, time = $4::bigint, notes = $5::bigint
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
        try staged.placing(in: request) {
            try PostgresText.dropGenerated(in: db)
            try PostgresText.refuseMisfits(in: db)
            try spellKeys()
        }
        return request
    }

    func stage(together bodies: [[UInt8]], limits: Limits) throws -> [SyncRequest]? {
        guard let requests = try staged.stage(together: bodies, limits: limits) else { return nil }
        do {
            try PostgresText.dropGenerated(in: db)
            try PostgresText.refuseMisfits(in: db)
            try spellKeys()
            return requests
        } catch is TidemarkError {
            // Staging each body by itself finds the faulty one.
            return nil
        }
    }

    func isolated<Success>(_ body: () throws -> Success) throws -> Result<Success, any Error> {
        do { return .success(try undoable(body)) } catch let failure as PostgresFailure
            where pg.isUsable && failure.state == "55P03"
        { return .failure(try rowsHeldError()) } catch  where pg.isUsable && !Self.endsTransaction(error) {
            return .failure(error)
        }
    }

    /// Whether an error fails all requests of the transaction.
    ///
    /// True if the database is lost or full, or another program interferes.
    private static func endsTransaction(_ error: any Error) -> Bool {
        if error is Overtaken { return true }
        guard let failure = error as? PostgresFailure else { return false }
        return failure.isDisconnected || failure.isTransient
            || ["25", "40", "53", "57", "58", "XX"].contains(String(failure.state.prefix(2)))
    }

    func attempt<Result>(_ body: () throws -> Result) throws -> Result {
        try undoable {
            // PostgreSQL checks references at the end of the change set.
            try pg.execute("SET CONSTRAINTS ALL DEFERRED")
            return try body()
        }
    }

    private func undoable<Result>(_ body: () throws -> Result) throws -> Result {
        let stateBefore = state
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
            state = stateBefore
            notes = notesBefore
            guard pg.isUsable else { throw error }
            try pg.execute("ROLLBACK TO attempt; RELEASE attempt")
            throw error
        }
    }

    /// Moves the zone to the next revision.
    func nextRevision() -> Int64 {
        updateState(revision: state.revision + 1)
        return state.revision
    }

    func updateState(revision: Int64? = nil, horizon: Int64? = nil, time: Int64? = nil) {
        state = ZoneState(
            epoch: state.epoch,
            revision: revision ?? state.revision,
            horizon: horizon ?? state.horizon,
            schema: state.schema,
            time: time ?? state.time
        )
    }

    /// Returns a table by name.
    func table(_ name: String) -> PostgresTable? { tables[name] }

    /// Formats numbers as an array literal of PostgreSQL.
    static func array(_ numbers: [Int64]) -> String { "{\(numbers.map(String.init).joined(separator: ","))}" }

    /// Formats texts without special characters as an array literal of PostgreSQL.
    static func array(_ texts: [String]) -> String { "{\(texts.map { "\"\($0)\"" }.joined(separator: ","))}" }
}
