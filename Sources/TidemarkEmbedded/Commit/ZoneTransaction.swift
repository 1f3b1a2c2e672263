package import GRDB
package import TidemarkCore
package import TidemarkEngine
import TidemarkSQL

/// The server engine's view of one transaction on a zone's SQLite file.
///
/// The connection is prepared for the schema, has `foreign_keys` on, and is inside an immediate
/// transaction.
package struct ZoneTransaction: CommitTransaction {
    package let db: Database
    package let schema: SyncSchema
    package let now: Int64
    let hash: String
    /// Identifies the columns and order that row fingerprints cover.
    ///
    /// Only fingerprints of the same layout are comparable.
    let fingerprintLayoutHash: String
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
        self.hash = try hash ?? SchemaText.hash(schema)
        fingerprintLayoutHash = ContentHash.of(schema.shape)
        respelling = schema.form { RespellingTables(schema) }
    }

    package func head() throws -> CommitHead {
        let values = try RowValues.first(
            """
            SELECT zone.epoch, zone.revision, zone.horizon, zone.time, last.chain, stored.fingerprint,
                EXISTS (SELECT 1 FROM tidemark_capture)
            FROM tidemark_zone AS zone
            LEFT JOIN tidemark_revision AS last ON last.revision = zone.revision
            LEFT JOIN tidemark_fingerprint AS stored ON stored.revision = zone.revision AND stored.shape = ?
            """,
            [.text(fingerprintLayoutHash)],
            in: db
        )
        guard let values, let epoch = values[0].text, let revision = values[1].integer, let horizon = values[2].integer,
            let time = values[3].integer
        else { throw Self.notAZone }
        let state = ZoneState(epoch: epoch, revision: revision, horizon: horizon, schema: hash, time: time)
        return CommitHead(
            state: state,
            chain: values[4].text ?? "",
            fingerprint: values[5].text.flatMap(Fingerprint.init(hex:)),
            hasOutsideChanges: values[6] == .integer(1)
        )
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

    package func end(of epoch: String) throws -> Int64? {
        try Int64.fetchOne(
            db.cachedStatement(sql: "SELECT ended FROM tidemark_lineage WHERE epoch = ?"),
            arguments: [epoch]
        )
    }

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
        try db.cachedStatement(sql: "SAVEPOINT tidemark").execute()
        do {
            let result = try body()
            try db.cachedStatement(sql: release).execute()
            return result
        } catch  where db.isInsideTransaction {
            // If the rollback itself fails, the state is unknown: that error fails the transaction.
            try db.cachedStatement(sql: "ROLLBACK TO SAVEPOINT tidemark").execute()
            try db.cachedStatement(sql: release).execute()
            throw error
        }
    }

    // MARK: Verdicts

    package func authorsCopies(of ids: [String], _ extent: SyncRequest.Echo) throws -> [String: String] {
        let rows = try Row.fetchCursor(
            db.cachedStatement(
                sql: """
                    SELECT
                        verdict.id,
                        verdict.revision,
                        verdict.body,
                        verdict.ids,
                        log_entry.body AS log_text,
                        \(RevisionText.restLength) AS rest
                    FROM tidemark_verdict AS verdict
                    LEFT JOIN tidemark_revision AS log_entry
                        ON log_entry.revision = verdict.revision AND NOT (verdict.as_sent AND ?1)
                    WHERE verdict.id IN (SELECT value FROM json_each(?2))
                    """
            ),
            arguments: [
                extent == .ids, "[\(ids.map(JSONText.quote).joined(separator: ","))]",
            ]
        )
        var copies: [String: String] = [:]
        while let row = try rows.next() {
            let logText = try (row.value("log_text") as String?).map { beginning in
                try RevisionText.whole(beginning, row.value("rest"), of: row.value("revision"), in: db)
            }
            copies[try row.value("id")] = try AuthorsCopy(
                whole: try row.value("body"),
                ids: try row.value("ids"),
                logged: logText
            ).render()
        }
        return copies
    }

    // MARK: Laps

    /// Deletes a device's contact and the notes for it, and takes a nonce that no device knows for its last one.
    ///
    /// With `user`, only if the device is that user's.
    func forget(device: String, of user: String?) throws {
        try db.cachedStatement(
            sql: """
                DELETE FROM tidemark_overruled
                WHERE device = ?1 AND EXISTS (SELECT 1 FROM tidemark_lap WHERE device = ?1 AND coalesce(user_id = ?2, ?2 IS NULL))
                """
        ).execute(arguments: [device, user])
        let isUsers = "device = ?1 AND coalesce(user_id = ?2, ?2 IS NULL)"
        try db.cachedStatement(sql: "UPDATE tidemark_lap SET lap = ?3 WHERE \(isUsers)")
            .execute(arguments: [device, user, Exchange.forgottenLap])
        try db.cachedStatement(sql: "DELETE FROM tidemark_contact WHERE \(isUsers)")
            .execute(arguments: [device, user])
    }

    // MARK: Ancestry

    package func ancestry(of ids: [String]) throws -> Ancestry {
        guard !ids.isEmpty, !planted(PlantedBug.ignoresAfter) else { return Ancestry(revisions: [], isRefused: false) }
        let list = "[" + ids.map { "\"\($0)\"" }.joined(separator: ",") + "]"
        let missing = try String.fetchOne(
            db.cachedStatement(
                sql: "SELECT value FROM json_each(?) WHERE value NOT IN (SELECT id FROM tidemark_verdict)"
            ),
            arguments: [list]
        )
        if let missing {
            throw TidemarkError(
                .predecessorMissing,
                "The change set depends on \(missing), which has not arrived.",
                fix: "Send \(missing) first, or in the same request before this one."
            )
        }
        let revisions = try Int64?.fetchAll(
            db.cachedStatement(
                sql: """
                    WITH RECURSIVE ancestor (id) AS (
                        SELECT value FROM json_each(?)
                        UNION
                        SELECT predecessor.value
                        FROM ancestor
                        JOIN tidemark_verdict AS verdict USING (id), json_each(verdict.after) AS predecessor
                    )
                    SELECT verdict.revision
                    FROM ancestor
                    JOIN tidemark_verdict AS verdict USING (id)
                    """
            ),
            arguments: [list]
        )
        let isRefused = try Bool.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT EXISTS (
                        SELECT 1
                        FROM json_each(?) AS predecessor
                        JOIN tidemark_verdict AS verdict ON verdict.id = predecessor.value
                        WHERE verdict.revision IS NULL)
                    """
            ),
            arguments: [list]
        )
        return Ancestry(revisions: revisions.compactMap { $0 }, isRefused: isRefused ?? false)
    }
}

/// The tables in which keys have several spellings, found once a schema: the search reads their statements.
struct RespellingTables: Sendable {
    /// Their places in ``TidemarkCore/SyncSchema/tables``.
    let places: Set<Int>

    init(_ schema: SyncSchema) {
        places = Set(schema.tables.indices.filter { KeySQL.hasSpellings(schema.tables[$0]) })
    }
}
