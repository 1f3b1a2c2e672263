import Foundation
import GRDB
import TidemarkCore
import TidemarkSQLite

/// Takes a delta into a file that is far behind: the rows that changed since its revision, as they
/// are now, and the keys of those that are gone.
///
/// What ``ApplyResponse`` does with change sets, in sets all the way: waiting edits go back to what
/// the server confirmed, every record that the delta names leaves its table and comes again from
/// the attached file, waiting edits go on top. So unique values may change hands in any way, and
/// the cost depends on the records that changed, not on how often or in how many change sets.
///
/// The caller is ``TakeSnapshot``, in a transaction without foreign keys, with the delta attached.
struct TakeDelta {
    let db: Database
    let header: SnapshotFormat.Header
    /// The revision that the delta begins after.
    let since: Int64
    let boundaries: KnownTransactions
    /// What the server knows of the outbox, if something was sent.
    let recall: Recall?
    let limits: Limits
    let now: Date
    let newID: () -> UUID

    /// The numbers under which the delta's records are staged: those that are there, and those
    /// that are gone.
    private static let (present, gone) = (1, 2)

    /// Takes the delta, unless the file is at another state than it was made for.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` with `fingerprintMismatch` when the rows would not
    ///   be the server's, or ``MassDeletion``.
    func take() throws -> Applied {
        try FitSchema(db: db, now: now, boundaries: boundaries, newID: newID).runIfNeeded()
        let file = try DeviceFile(db)
        guard file.epoch == header.epoch, file.revision == since, file.served == header.schema,
            let expected = ConfirmedRows(db: db, file: file).expected
        else { return Applied(revision: file.revision, isStale: true) }
        let schema = file.schema
        try EngineConnection.prepare(db, schema: schema)
        try DrainCapture(db: db, schema: schema).drain(boundaries: boundaries, now: now, newID: newID)
        let records = try stage(schema)
        var events: [SyncEvent] = []
        try DeviceFile.whileApplying(db) {
            let pending = PendingChanges(db: db, schema: schema)
            try pending.rewind()
            if let deletion = try MassDeletion.staged(as: Self.gone, schema, limits: limits, in: db) { throw deletion }
            try replace(file, expecting: expected)
            if let recall {
                events += try LateVerdicts(
                    db: db,
                    schema: schema,
                    header: header,
                    recall: recall,
                    limits: limits,
                    now: Timestamp.text(now)
                ).settle()
            }
            try pending.refreshBase()
            try pending.replay()
            try OwnReferences(db: db, schema: schema).settle()
        }
        try db.execute(sql: "UPDATE tidemark_state SET revision = ?", arguments: [header.revision])
        try DeviceClock.receive(header.time, in: db)
        try DeviceFile.noteContact(now, in: db)
        return Applied(
            revision: header.revision,
            hasPending: try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM tidemark_changeset)") ?? false,
            events: [.remoteChanges(revision: header.revision, records: records)] + events
        )
    }

    /// Stages the keys of the records that the delta names.
    ///
    /// - Returns: How many there are.
    private func stage(_ schema: SyncSchema) throws -> Int {
        try StagingTables.clear(in: db)
        for table in schema.tables {
            let name = SQLText.literal(table.name)
            try SnapshotCheck.ids(of: table, in: "snapshot", db)
            try db.execute(
                sql: """
                    INSERT INTO temp.tidemark_staged (ord, tbl, operation, key)
                    SELECT \(Self.present), \(name), 'create', \(RowJSON.key(table))
                    FROM snapshot.\(SQLText.name(table.name))
                    """
            )
            try db.execute(
                sql: """
                    INSERT INTO temp.tidemark_staged (ord, tbl, operation, key)
                    SELECT \(Self.gone), \(name), 'delete', key
                    FROM snapshot.\(SnapshotFormat.deleted) WHERE tbl = \(name)
                    """
            )
        }
        try db.execute(sql: ChangeSetStaging.keyCellSQL(where: "a.ord = \(Self.gone)"))
        return try Int.fetchOne(db, sql: "SELECT count(*) FROM temp.tidemark_staged") ?? 0
    }

    /// Replaces the staged records, and checks that the tables are the server's then.
    private func replace(_ file: DeviceFile, expecting expected: Fingerprint) throws {
        let rows = RowFingerprints(db, schema: file.schema)
        let staged = { try rows.records(stagedAs: Self.present) + rows.records(stagedAs: Self.gone) }
        let others = try expected - staged()
        for table in file.schema.tables {
            let name = SQLText.name(table.name)
            let key = SQLText.names(table.key)
            let left = table.key.count == 1 ? key : "(\(key))"
            try db.execute(sql: "DELETE FROM main.\(name) WHERE \(left) IN (SELECT \(key) FROM snapshot.\(name))")
        }
        let writer = RecordWriter(db, schema: file.schema, existing: .overwrite)
        try writer.write(ord: Self.gone)
        for table in file.schema.tables { try SnapshotRows.copy(table, file.schema.difference, in: db) }
        let mine = try others + staged()
        guard header.fingerprint == nil || header.fingerprint == mine.hex else {
            throw TidemarkError(
                .fingerprintMismatch,
                "The rows would not be the server's after this delta: \(mine) is not \(header.fingerprint ?? "").",
                fix: "Nothing was changed; the rows are compared and those that differ replaced."
            )
        }
        let references = AnswerReferences(db: db, schema: file.schema)
        try references.check(ord: Self.present)
        try references.check(ord: Self.gone)
        try ConfirmedRows(db: db, file: file).keep(mine)
    }
}
