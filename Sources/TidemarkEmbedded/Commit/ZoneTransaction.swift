package import GRDB
package import TidemarkCore
package import TidemarkEngine
import TidemarkSQL

/// The server engine's view of one immediate transaction on a zone's SQLite file, with `foreign_keys` on.
package final class ZoneTransaction: CommitTransaction, FileBooks {
    package let db: Database
    package let now: Int64
    package let books: BookState

    /// Wraps a connection that is inside an immediate transaction; without the schema's `hash`, this computes it.
    ///
    /// `now` is the server's wall clock, in milliseconds since 1970.
    package init(_ db: Database, schema: SyncSchema, hash: String? = nil, now: Int64) throws {
        self.db = db
        self.now = now
        books = BookState(schema: try hash ?? SchemaText.hash(schema), ways: ZoneWays(ofFile: schema))
    }

    /// Reads the latest revision twice: from the zone's row and from its log.
    static func ends(in db: Database) throws -> (zone: Int64, log: Int64) {
        let row = try Row.fetchOne(
            db,
            sql: """
                SELECT revision, coalesce((SELECT max(revision) FROM tidemark_revision), 0)
                FROM tidemark_zone
                """)
        guard let row else { throw notAZone }
        return try (row.value(0), row.value(1))
    }

    static let notAZone = TidemarkError(
        .unusableFile, "The file is not a zone.", fix: "Serve it with `tidemark serve FILE`.")

    package func savepoint<Success>(_ body: () throws -> Success) throws -> Result<Success, any Error> {
        // SQLite checks references at the end of the change set.
        try ConnectionFlag.deferForeignKeys.set(true, in: db)
        do { return .success(try inSavepoint(body)) } catch {
            guard db.isInsideTransaction, !Self.endsTransaction(error) else { throw error }
            return .failure(error)
        }
    }

    package func refusal(for error: any Error) throws -> any Error {
        guard db.isInsideTransaction, !Self.endsTransaction(error) else { throw error }
        return TidemarkError.translateStorageError(error, of: "the zone's file")
    }

    /// Whether an error fails the transaction; a damaged page only fails what touches it (``ZoneFile/answer(_:by:)``).
    static func endsTransaction(_ error: any Error) -> Bool {
        guard let code = (error as? DatabaseError)?.resultCode else { return false }
        return [
            .SQLITE_FULL, .SQLITE_IOERR, .SQLITE_NOMEM, .SQLITE_INTERRUPT, .SQLITE_ABORT, .SQLITE_BUSY, .SQLITE_LOCKED,
            .SQLITE_CANTOPEN, .SQLITE_READONLY, .SQLITE_PROTOCOL, .SQLITE_PERM, .SQLITE_NOLFS,
        ].contains(code)
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

    package var rows: FileRows { FileRows(db, schema: schema) }

    package func tableRows(_ question: TableQuestion) throws -> TableAnswer { try rows.answer(question) }
}

extension ZoneWays {
    convenience init(ofFile schema: SyncSchema) {
        let tables = schema.form { FileWays(schema) }.tables
        self.init(schema: schema, isLocal: true, hasFarEffects: nil, tables: tables)
    }
}

/// The ways of tables in files, found once a schema: the search reads their statements.
private struct FileWays: Sendable {
    let tables: [TableWays]

    init(_ schema: SyncSchema) {
        tables = schema.tables.map { table in
            let hasSpellings = KeySQL.hasSpellings(table)
            return TableWays { _ in hasSpellings }
        }
    }
}

extension ZoneTransaction {
    package func write(_ changeSets: [PendingChangeSet], _ effect: (Effect) throws -> Void) throws {
        do { try writeRecords(of: changeSets) } catch let error as DatabaseError
            where error.resultCode == .SQLITE_CONSTRAINT
        {
            throw violation(of: error)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
            throw impossible(error)
        }
        try checkReferences(changeSets)
        let effects = CapturedEffects(db, schema: schema)
        if try effects.read(effect) { try effects.delete() }
    }

    /// Writes the records; a trigger that runs at devices has left its effect in the change set.
    private func writeRecords(of changeSets: [PendingChangeSet]) throws {
        func write() throws {
            // The caller has begun the savepoint right before.
            try ChangeWriter(db, schema: schema).write(changeSets) {
                try db.cachedStatement(sql: "ROLLBACK TO SAVEPOINT tidemark").execute()
            }
        }
        guard schema.objects.hasDeviceTriggers else { return try write() }
        try db.cachedStatement(sql: "UPDATE tidemark_state SET applying = \(TriggerGuard.suspended)").execute()
        try write()
        try db.cachedStatement(sql: "UPDATE tidemark_state SET applying = 0").execute()
    }

    /// The refusal of a change set on which an expression of the file fails, as with a function of the program's own.
    private func impossible(_ error: DatabaseError) -> Violation {
        let (table, columns) = place(of: error)
        return .refusal(
            TidemarkError(
                .constraintViolated,
                "A trigger or an expression of the table fails at the server: \(error.message ?? "no reason").",
                fix: """
                    Give other values; or at the server, drop the trigger or have it run at devices with \
                    `tidemark serve FILE --trigger NAME=device`, then retry.
                    """,
                place: .init(table: table.isEmpty ? nil : table, column: columns.first)))
    }

    private func violation(of error: DatabaseError) -> Violation {
        let (table, columns) = place(of: error)
        switch error.extendedResultCode {
        case _ where error.isCollision:
            return .conflict([ConflictReason(table: table, key: "", columns: columns, rule: .unique)])
        case .SQLITE_CONSTRAINT_FOREIGNKEY:
            return .conflict([ConflictReason(table: table, key: "", columns: [], rule: .referenced)])
        case .SQLITE_CONSTRAINT_NOTNULL where columns.contains { schema.history.fills[table]?[$0] != nil }:
            return .refusal(.deviceBehind(table, columns[0]))
        default:
            return .refusal(
                .constraintViolated(
                    error.message ?? "a constraint failed", in: table.isEmpty ? nil : table, columns.first))
        }
    }

    /// Reads table and columns from a message such as `UNIQUE constraint failed: zones.name`; without one, the table.
    private func place(of error: DatabaseError) -> (table: String, columns: [String]) {
        let names = (error.message ?? "").split(separator: ": ").last.map { $0.split(separator: ", ") } ?? []
        for table in schema.tables {
            let columns = table.columns.map(\.name).filter { names.contains("\(table.name).\($0)") }
            if !columns.isEmpty { return (table.name, columns) }
        }
        // The message of a CHECK has only the expression, so the table comes from the statement.
        let sql = (error.sql ?? "").replacing("\n", with: " ")
        let table = schema.tables.first { sql.contains(" main.\(SQLText.name($0.name)) ") }
        return (table?.name ?? "", [])
    }

    private func checkReferences(_ changeSets: [PendingChangeSet]) throws {
        let check = ForeignKeyCheck(db, schema: schema)
        guard check.hasUnresolvedReferences || schema.hasZeroReferences else { return }
        // SQLite counts a reference to 0 as broken, and the removal of one as mended.
        if schema.hasZeroReferences, try check.all(limit: 1).isEmpty { return try check.forgetUnresolvedReferences() }
        let broken = BrokenReferences(schema: schema, changeSets: changeSets, wasDeleted: wasDeleted)
        throw try broken.violation { try check.brokenReferences(in: $0) }
    }
}
