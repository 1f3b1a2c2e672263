package import GRDB
package import TidemarkCore
package import TidemarkEngine
import TidemarkSQL

/// The server engine's view of one transaction on a zone's SQLite file.
///
/// The connection is prepared for the schema, has `foreign_keys` on, and is inside an immediate
/// transaction.
package final class ZoneTransaction: CommitTransaction, FileBooks {
    package let db: Database
    package let schema: SyncSchema
    package let now: Int64
    package var books: BookState
    /// The tables in which keys have several spellings.
    let respelling: RespellingTables

    /// Wraps a connection that is inside an immediate transaction.
    ///
    /// `hash` is the schema's hash; if nil, this computes it. `now` is the server's wall clock, in
    /// milliseconds since 1970.
    package init(_ db: Database, schema: SyncSchema, hash: String? = nil, now: Int64) throws {
        self.db = db
        self.schema = schema
        self.now = now
        books = BookState(schema: try hash ?? SchemaText.hash(schema))
        respelling = schema.form { RespellingTables(schema) }
    }

    /// Reads the latest revision twice: from the zone's row and from its log.
    static func ends(in db: Database) throws -> (zone: Int64, log: Int64) {
        let row = try Row.fetchOne(
            db,
            sql: """
                SELECT revision, coalesce((SELECT max(revision) FROM tidemark_revision), 0)
                FROM tidemark_zone
                """
        )
        guard let row else { throw notAZone }
        return try (row.value(0), row.value(1))
    }

    static let notAZone = TidemarkError(
        .unusableFile,
        "The file is not a zone.",
        fix: "Serve it with `tidemark serve FILE`."
    )

    package func isolated<Success>(alone: Bool, _ body: () throws -> Success) throws -> Result<Success, any Error> {
        do {
            if alone || planted(PlantedBug.keepsEffectsOfRefusedRequest) { return .success(try body()) }
            return .success(try inSavepoint(body))
        } catch {
            guard db.isInsideTransaction, !Self.endsTransaction(error) else { throw error }
            return .failure(TidemarkError.translateStorageError(error, of: "the zone's file"))
        }
    }

    /// Whether an error fails the whole transaction rather than one request.
    ///
    /// A damaged page does not: only requests that touch it get the error
    /// (``ZoneFile/answer(_:by:)``).
    static func endsTransaction(_ error: any Error) -> Bool {
        guard let code = (error as? DatabaseError)?.resultCode else { return false }
        return [
            .SQLITE_FULL, .SQLITE_IOERR, .SQLITE_NOMEM, .SQLITE_INTERRUPT, .SQLITE_ABORT, .SQLITE_BUSY, .SQLITE_LOCKED,
            .SQLITE_CANTOPEN, .SQLITE_READONLY, .SQLITE_PROTOCOL, .SQLITE_PERM, .SQLITE_NOLFS,
        ].contains(code)
    }

    package func attempt<Result>(_ body: () throws -> Result) throws -> Result {
        // SQLite checks references at the end of the change set.
        try ConnectionFlag.deferForeignKeys.set(true, in: db)
        if planted(PlantedBug.keepsEffectsOfRefused) { return try body() }
        return try inSavepoint(body)
    }

    /// Runs `body` in a savepoint, with cached statements; GRDB's `inSavepoint` compiles its own each time.
    private func inSavepoint<Result>(_ body: () throws -> Result) throws -> Result {
        let release = "RELEASE SAVEPOINT tidemark"
        let before = books
        try db.cachedStatement(sql: "SAVEPOINT tidemark").execute()
        do {
            let result = try body()
            try db.cachedStatement(sql: release).execute()
            return result
        } catch  where db.isInsideTransaction {
            books = before
            // If the rollback itself fails, the state is unknown: that error fails the transaction.
            try db.cachedStatement(sql: "ROLLBACK TO SAVEPOINT tidemark").execute()
            try db.cachedStatement(sql: release).execute()
            throw error
        }
    }

    // MARK: Rows

    package var latestChain: String? { books.head?.chain }

    /// The zone's rows, for those who read them by tables and columns.
    package var rows: FileRows { FileRows(db, schema: schema) }

    package func rows(_ query: RowQuery) throws -> RowPage { try rows.rows(query) }

    package func fingerprints(_ query: FingerprintQuery) throws -> [RowSum] { try rows.fingerprints(query) }

    package func fingerprintOfRows() throws -> Fingerprint { try RowFingerprints(db, schema: schema).all() }
}

/// The tables in which keys have several spellings, found once a schema: the search reads their statements.
struct RespellingTables: Sendable {
    /// Their places in ``TidemarkCore/SyncSchema/tables``.
    let places: Set<Int>

    init(_ schema: SyncSchema) {
        places = Set(schema.tables.indices.filter { KeySQL.hasSpellings(schema.tables[$0]) })
    }
}
