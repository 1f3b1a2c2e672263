import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// Applies a delta to a file that is far behind.
///
/// A delta holds the current rows that changed since the file's revision, and the keys of deleted
/// rows. The device rewinds pending edits, deletes every record that the delta names, inserts the
/// delta's rows, and replays the pending edits. So records can exchange unique values freely, and the
/// cost depends on the number of changed records, not of change sets.
///
/// The caller is ``TakeSnapshot``, in a transaction without foreign keys, with the delta attached.
struct TakeDelta {
    let db: Database
    let header: SnapshotFormat.Header
    /// The revision that the delta begins after.
    let since: Int64
    let boundaries: KnownTransactions
    /// The server's knowledge of the outbox; nil if the device has no unanswered change set.
    let recall: Recall?
    let limits: Limits
    let now: Date
    let newID: () -> UUID

    /// Reports a stale delta if the file is not at its base; throws `fingerprintMismatch` or ``MassDeletion``.
    func take() throws -> ApplyResult {
        try FitSchema(db: db, now: now, boundaries: boundaries, newID: newID).runIfNeeded()
        let file = try DeviceFile(db)
        guard file.epoch == header.epoch, file.revision == since, file.served == header.schema,
            let expected = ConfirmedRows(db: db, file: file).expectedFingerprint
        else { return ApplyResult(revision: file.revision, isStale: true) }
        let schema = file.schema
        try EngineConnection.prepare(db, schema: schema)
        try DrainCapture(db: db, schema: schema).drain(boundaries: boundaries, now: now, newID: newID)
        let changes = try stage(schema)
        var events: [DeviceEvent] = []
        try DeviceFile.whileApplying(db) {
            let pending = PendingChanges(db: db, schema: schema)
            let uncaptured = UncapturedEdits(db: db, schema: schema, now: Timestamp.text(now), newID: newID)
            events += try uncaptured.parkOverPending()
            try pending.rewind()
            if let deletion = try MassDeletion.find(
                stagedAs: StagedPurpose.deltaDeleted.ord, schema, limits: limits, in: db)
            {
                throw deletion
            }
            try replace(file, expecting: expected)
            if let recall {
                events += try LateVerdicts(
                    db: db, schema: schema, header: header, recall: recall, limits: limits, now: Timestamp.text(now)
                ).settle()
            }
            try pending.refreshBase()
            try pending.replay()
            try OwnReferences(db: db, schema: schema).settle()
        }
        try db.execute(sql: "UPDATE tidemark_state SET revision = ?", arguments: [header.revision])
        try DeviceClock.receive(header.time, in: db)
        try DeviceFile.storeContact(now, in: db)
        return ApplyResult(
            revision: header.revision,
            hasPending: try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM tidemark_changeset)") ?? false,
            events: [.changed(changes)] + events)
    }

    /// Stages the keys of the records that the delta names, and returns them.
    private func stage(_ schema: SyncSchema) throws -> RemoteChanges {
        try StagingTables.clear(in: db)
        for table in schema.tables {
            let name = SQLText.literal(table.name)
            try SnapshotCheck.ids(of: table, in: "snapshot", db)
            try db.execute(
                sql: """
                    INSERT INTO temp.tidemark_staged (ord, tbl, operation, key)
                    SELECT \(StagedPurpose.deltaPresent.ord), \(name), 'create', \(RowJSON.key(table))
                    FROM snapshot.\(SQLText.name(table.name))
                    """)
            try db.execute(
                sql: """
                    INSERT INTO temp.tidemark_staged (ord, tbl, operation, key)
                    SELECT \(StagedPurpose.deltaDeleted.ord), \(name), 'delete', key
                    FROM snapshot.\(SnapshotFormat.deletedTable) WHERE tbl = \(name)
                    """)
        }
        try db.execute(sql: ChangeSetStaging.keyCellSQL(where: "staged.ord = \(StagedPurpose.deltaDeleted.ord)"))
        let stages = [StagedPurpose.deltaPresent.ord, StagedPurpose.deltaDeleted.ord]
        return try RemoteChanges(revision: header.revision, stagedAs: stages, in: db)
    }

    /// Replaces the staged records and compares the result with the server's fingerprint.
    private func replace(_ file: DeviceFile, expecting expected: Fingerprint) throws {
        let rows = RowFingerprints(db, schema: file.schema)
        let staged = {
            try rows.records(stagedAs: StagedPurpose.deltaPresent.ord)
                + rows.records(stagedAs: StagedPurpose.deltaDeleted.ord)
        }
        let unchanged = try expected - staged()
        for table in file.schema.tables {
            let name = SQLText.name(table.name)
            let key = SQLText.names(table.key)
            let tuple = table.key.count == 1 ? key : "(\(key))"
            try db.execute(sql: "DELETE FROM main.\(name) WHERE \(tuple) IN (SELECT \(key) FROM snapshot.\(name))")
        }
        let writer = RecordWriter(db, schema: file.schema)
        try writer.write(ord: StagedPurpose.deltaDeleted.ord)
        for table in file.schema.tables { try SnapshotRows.copy(table, file.schema.difference, in: db) }
        let mine = try unchanged + staged()
        guard header.fingerprint == nil || header.fingerprint == mine.hex else {
            throw TidemarkError(
                .fingerprintMismatch,
                "After this delta the rows would differ from the server's: \(mine) is not \(header.fingerprint ?? "").",
                fix: "Nothing was changed. The device compares its rows with the server's and repairs them.")
        }
        let references = AnswerReferences(db: db, schema: file.schema)
        try references.check(ord: StagedPurpose.deltaPresent.ord)
        try references.check(ord: StagedPurpose.deltaDeleted.ord)
        try ConfirmedRows(db: db, file: file).store(mine)
    }
}
