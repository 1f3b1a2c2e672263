import TidemarkCore
import TidemarkEngine

/// The engine's view of one transaction on one zone in PostgreSQL.
///
/// Every function works on sets: a statement a table, for any number of records. A set of records travels as an array
/// a column. The transaction begins with the first question, so that requests are read before it holds a lock.
///
/// It locks the zone's row first and to its end, so commits of a zone are serial and its revisions dense. Other
/// programs do not take that lock. If one commits a change of the same records meanwhile, the transaction starts again
/// (``Overtaken``).
///
/// Statements whose results nobody needs wait for the next round trip (``PostgresConnection/queue(_:_:)``). A push
/// takes four: begin and facts; records that others changed; rows and their effects; log and commit.
final class PostgresTransaction: CommitTransaction, PostgresBooks {
    let pg: PostgresConnection
    let served: PostgresSchema
    let zone: String
    let now: Int64
    /// Other programs that held required rows, for the log.
    var holders: [RowHolder] = []
    /// Whether the transaction had no effect, so that it needs no commit.
    var isVoid = false
    let books: BookState
    /// The ids that the transaction has drawn from sequences, by table.
    var drawnIDs: [Int: [Int64]] = [:]
    private let allowStaleSchema: Bool
    private let rowPatience: Int
    private var isBegun = false
    private var depth = 0

    /// `allowStaleSchema` serves altered tables by their old schema; `rowPatience` bounds a wait for a row, in ms.
    init(
        _ pg: PostgresConnection, zone: String, served: PostgresSchema, allowStaleSchema: Bool = false,
        rowPatience: Int, now: Int64
    ) throws {
        guard !zone.utf8.contains(0) else { throw TidemarkError.unknownZone }
        self.pg = pg
        self.served = served
        self.allowStaleSchema = allowStaleSchema
        self.rowPatience = rowPatience
        self.now = now
        self.zone = zone
        books = BookState(schema: served.hash, ways: served.ways)
    }

    /// Begins the transaction, unless it has begun.
    func begin() throws { _ = try head() }

    func answers(_ questions: [BookQuestion]) throws -> [[BookRow]] {
        let statements = questions.map(statement)
        return try Self.rows(isBegun ? pg.run(statements)[...] : begin(asking: statements), of: questions)
    }

    /// Begins, locks the zone and runs statements in one round trip; throws `unknownZone` or ``TablesAltered``.
    private func begin(asking statements: [PostgresStatement]) throws -> ArraySlice<PostgresRows> {
        let results = try PostgresFailure.beforeBegin {
            try pg.run(
                [
                    PostgresStatement("BEGIN"),
                    // The setting tells the capture triggers the transaction's own zone.
                    PostgresStatement(
                        """
                        SELECT set_config('tidemark.zone', zone, true)
                        FROM tidemark.zone
                        WHERE zone = $1
                        FOR NO KEY UPDATE
                        """,
                        [zone]),
                    // Runs under the zone's lock, which a node that follows tables also takes.
                    CataloguePosition.statement(of: served.namespace, zone: zone),
                    // Rows get a shorter timeout than the zone's lock.
                    PostgresStatement("SET LOCAL lock_timeout = \(rowPatience)"),
                ] + statements)
        }
        guard !results[1].isEmpty else { throw TidemarkError.unknownZone }
        let position = CataloguePosition(results[2])
        guard position == served.position || allowStaleSchema && position.version == served.position.version else {
            throw TablesAltered()
        }
        try pg.deallocateStatements(ifAlteredAt: position)
        isBegun = true
        return results.dropFirst(4)
    }

    func savepoint<Success>(_ body: () throws -> Success) throws -> Result<Success, any Error> {
        do { return .success(try inSavepoint(body)) } catch  where pg.isUsable && !Self.endsTransaction(error) {
            return .failure(error)
        }
    }

    func refusal(for error: any Error) throws -> any Error {
        (error as? PostgresFailure)?.state == "55P03" ? try rowsHeldError() : error
    }

    /// Whether an error fails all requests: the database is lost or full, or another program interferes.
    private static func endsTransaction(_ error: any Error) -> Bool {
        if error is Overtaken { return true }
        // A row that another program holds fails one request.
        guard let failure = error as? PostgresFailure, failure.state != "55P03" else { return false }
        return failure.isDisconnected || failure.isTransient
            || ["25", "40", "53", "57", "58", "XX"].contains(String(failure.state.prefix(2)))
    }

    /// Runs `body` in a savepoint; its statements wait, so that one without a query costs no round trip.
    private func inSavepoint<Success>(_ body: () throws -> Success) throws -> Success {
        let queuedBefore = pg.queuedCount
        depth += 1
        defer { depth -= 1 }
        // A name of its own: after a failure before the savepoint, it must not be taken for an outer one.
        let name = "attempt\(depth)"
        try pg.queue("SAVEPOINT \(name)")
        do {
            let result = try body()
            try pg.queue("RELEASE \(name)")
            return result
        } catch {
            guard pg.isUsable else { throw error }
            if !pg.forget(after: queuedBefore) { try pg.execute("ROLLBACK TO \(name); RELEASE \(name)") }
            throw error
        }
    }

    func table(_ place: Int) throws -> PostgresTable { try table(schema.tables[place].name) }

    func table(_ name: String) throws -> PostgresTable {
        guard let table = served.tables[name] else { throw TablesAltered() }
        return table
    }
}
