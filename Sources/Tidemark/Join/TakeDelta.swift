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
    let round: RoundContext
    let header: SnapshotFormat.Header
    /// The revision that the delta begins after.
    let since: Int64
    /// The server's knowledge of the outbox; nil if the device has no unanswered change set.
    let recall: Recall?

    private var db: Database { round.db }
    private var schema: SyncSchema { round.schema }

    /// Reports a stale delta if the file is not at its base; throws `fingerprintMismatch` or ``MassDeletion``.
    func take() throws -> ApplyResult {
        let file = round.file
        guard file.epoch == header.epoch, file.revision == since, file.served == header.schema,
            let expected = round.fingerprints.expectedFingerprint
        else { return ApplyResult(revision: file.revision, outcome: .overtaken) }
        try round.drain()
        let changeSet = try names()
        let events = try round.rebase {
            if let deletion = try MassDeletion.find(changeSet, schema, limits: round.limits, in: db) { throw deletion }
            try replace(changeSet, expecting: expected)
            guard let recall else { return [] }
            return try LateVerdicts(round: round, header: header, recall: recall).settle()
        }
        try db.execute(sql: "UPDATE tidemark_state SET revision = ?", arguments: [header.revision])
        try DeviceClock.receive(header.time, in: db)
        try DeviceFile.storeContact(round.now, in: db)
        let changes = RemoteChanges(revision: header.revision, changeSet.records, schema.wireNames)
        return ApplyResult(
            revision: header.revision,
            hasPending: try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM tidemark_changeset)") ?? false,
            events: [.changed(changes)] + events)
    }

    /// Returns the names of the records that the delta brings or deletes.
    private func names() throws -> PendingChangeSet {
        var builder = ChangeSetBuilder(schema)
        for (place, table) in schema.tables.enumerated() {
            try SnapshotCheck.ids(of: table, in: "snapshot", db)
            let deleted = "SELECT key FROM snapshot.\(SnapshotFormat.deletedTable) WHERE tbl = ?"
            for key in try String?.fetchAll(db, sql: deleted, arguments: [table.name]) {
                guard let key else { throw SnapshotCheck.unusable("it deletes a record without a key.") }
                builder.add(.delete, RecordID(table: place, key: key), values: [])
            }
            let present = "SELECT \(RowJSON.key(table)) FROM snapshot.\(SQLText.name(table.name))"
            for key in try String.fetchAll(db, sql: present) {
                builder.add(.create, RecordID(table: place, key: key), values: [])
            }
        }
        return builder.build()
    }

    /// Replaces the records and compares the result with the server's fingerprint.
    private func replace(_ changeSet: PendingChangeSet, expecting expected: Fingerprint) throws {
        let rows = RowFingerprints(db, schema: schema)
        let unchanged = try expected - rows.records(of: changeSet)
        for table in schema.tables {
            let name = SQLText.name(table.name)
            let key = SQLText.names(table.key)
            let tuple = table.key.count == 1 ? key : "(\(key))"
            try db.execute(sql: "DELETE FROM main.\(name) WHERE \(tuple) IN (SELECT \(key) FROM snapshot.\(name))")
        }
        var deleted = changeSet
        deleted.records.removeAll { $0.operation != .delete }
        try ChangeWriter(db, schema: schema, isDevice: true).write(deleted)
        for table in schema.tables { try SnapshotRows.copy(table, schema.difference, in: db) }
        let mine = try unchanged + rows.records(of: changeSet)
        guard header.fingerprint == nil || header.fingerprint == mine.hex else {
            throw TidemarkError(
                .fingerprintMismatch,
                "After this delta the rows would differ from the server's: \(mine) is not \(header.fingerprint ?? "").",
                fix: "Nothing was changed. The device compares its rows with the server's and repairs them.")
        }
        if let broken = try ForeignKeyCheck(db, schema: schema).firstBroken(by: changeSet) {
            throw Answer.dangling(broken)
        }
        try round.fingerprints.store(mine)
    }
}
