package import Foundation
package import GRDB
package import TidemarkCore
import TidemarkSQLite

/// Fills a device's tables from a snapshot: the first time, and whenever the log does not reach
/// back far enough or the server's history is another one.
///
/// The outbox stays and goes on top again.
///
/// The snapshot is not trusted: it is attached without trusted schema, only plain tables are read,
/// only columns that this file's tables have are copied, and the references are checked before
/// anything is committed.
package struct TakeSnapshot {
    let db: Database
    let snapshotPath: String
    /// Where transactions of the app are known to have ended.
    let boundaries: KnownTransactions
    /// What the server knows of the outbox, if something was sent or the snapshot may be of another
    /// history.
    let recall: Recall?
    let limits: Limits
    let now: Date
    let newID: () -> UUID
    /// Whether the rows here are not those that their revision stands for.
    var hasMismatch = false
    /// What may be done with a snapshot in which much is gone.
    var consent = MassDeletion.Consent.none
    /// The state of the file that the snapshot was asked for; nil: any.
    var asked: FileState?

    /// Takes the snapshot at a path into the file behind a connection.
    package init(
        db: Database,
        snapshotPath: String,
        boundaries: KnownTransactions = [],
        recall: Recall? = nil,
        limits: Limits = .standard,
        now: Date,
        newID: @escaping () -> UUID
    ) {
        self.db = db
        self.snapshotPath = snapshotPath
        self.boundaries = boundaries
        self.recall = recall
        self.limits = limits
        self.now = now
        self.newID = newID
    }

    /// Takes the snapshot into a file that has the zone's tables, unless that is in another state
    /// than it was asked for.
    ///
    /// The caller is outside a transaction; here is one, with `foreign_keys` off.
    func take() throws -> Applied {
        try attached(zone: DeviceFile(db).zone) { header in
            var applied = Applied()
            try Transaction.withoutForeignKeys(db) {
                if let asked, try asked != FileState(DeviceFile(db), in: db) {
                    applied.isStale = true
                    return
                }
                applied = try header.since.map { try takeDelta(header, since: $0) } ?? replaceRows(header)
            }
            return applied
        }
    }

    /// Makes the zone's tables in a new file and fills them: rows first, then indexes and triggers,
    /// which is the fast order.
    @discardableResult package func join(device: UUID, server: String, zone: String) throws -> Applied {
        try attached(zone: zone) { header in
            guard header.since == nil else { throw SnapshotCheck.unusable("it has not all rows.") }
            let schema = try SchemaText.decode(header.schema)
            var applied = Applied()
            try Transaction.withoutForeignKeys(db) {
                for table in schema.tables { try db.execute(sql: AutoincrementSQL.rewritten(table)) }
                try DeviceFile.enrol(device: device, server: server, zone: zone, in: db)
                try db.execute(sql: "UPDATE tidemark_device SET schema = ?", arguments: [header.schema])
                let local = try SchemaIntrospection(db).validated(policies: schema.policies)
                var records = 0
                for table in local.tables { records += try SnapshotRows.copy(table, local.difference, in: db) }
                try SnapshotCheck.rows(of: local, in: db)
                for index in schema.tables.flatMap(\.indexSQL) { try db.execute(sql: index) }
                try DeviceTables.reserveIds(local, in: db)
                try CaptureTables.install(local, guardsNewIds: true, in: db)
                let file = try DeviceFile(db)
                try FitSchema.keep(file.tables, header.schema, in: db)
                try EngineConnection.prepare(db, schema: file.schema)
                try finish(header)
                applied = Applied(
                    revision: header.revision,
                    events: [.snapshotTaken(revision: header.revision, records: records)]
                )
            }
            return applied
        }
    }

    /// Compares rebuilt tables with the snapshot, and captures what differs as edits.
    ///
    /// - Returns: Whether it could: the snapshot must be at the file's own revision.
    func compareRebuilt() throws -> Bool {
        try attached(zone: DeviceFile(db).zone) { header in
            var isCompared = false
            try Transaction.withoutForeignKeys(db) {
                try FitSchema(db: db, now: now, boundaries: boundaries, newID: newID).runIfNeeded()
                let file = try DeviceFile(db)
                try EngineConnection.prepare(db, schema: file.schema)
                try DrainCapture(db: db, schema: file.schema).drain(boundaries: boundaries, now: now, newID: newID)
                // What waits hides what it was written over: then the next sync compares.
                let isQuiet = try Bool.fetchOne(db, sql: "SELECT NOT EXISTS (SELECT 1 FROM tidemark_base)")
                guard isQuiet == true, header.since == nil, header.epoch == file.epoch,
                    header.revision == file.revision, header.schema == file.served
                else { return }
                try DeviceFile.whileApplying(db) { try compare(file).capture() }
                try db.execute(sql: "UPDATE tidemark_device SET rebuilt = NULL")
                isCompared = true
            }
            return isCompared
        }
    }

    // MARK: Steps

    private func compare(_ file: DeviceFile) throws -> CompareRebuilt {
        CompareRebuilt(
            db: db,
            schema: file.schema,
            tables: try CompareRebuilt.tables(file),
            now: Timestamp.text(now),
            newID: newID
        )
    }

    /// Nobody asks for a delta where the rows may be others than their revision says.
    private func takeDelta(_ header: SnapshotFormat.Header, since: Int64) throws -> Applied {
        guard recall?.isAboutOther != true, !hasMismatch, case .none = consent else {
            throw SnapshotCheck.unusable("it has not all rows.")
        }
        return try TakeDelta(
            db: db,
            header: header,
            since: since,
            boundaries: boundaries,
            recall: recall,
            limits: limits,
            now: now,
            newID: newID
        ).take()
    }

    private func replaceRows(_ header: SnapshotFormat.Header) throws -> Applied {
        try refuseUnasked(header)
        try FitSchema(db: db, now: now, boundaries: boundaries, newID: newID).run(served: header.schema)
        let file = try DeviceFile(db)
        if let problem = file.tables.problems.first { throw problem }
        let schema = file.schema
        try drain(file)
        let deletion = try suspectDeletion(header, schema)
        var events: [SyncEvent] = []
        try DeviceFile.whileApplying(db) {
            let pending = PendingChanges(db: db, schema: schema)
            let parents = try OldParents(noting: schema, in: db)
            try HeldColumns(db: db, schema: schema).save(all: true)
            for table in schema.tables.reversed() {
                try db.execute(sql: "DELETE FROM main.\(SQLText.name(table.name))")
            }
            var records = 0
            for table in schema.tables { records += try SnapshotRows.copy(table, schema.difference, in: db) }
            events = [.snapshotTaken(revision: header.revision, records: records)]
            try UnknownValues(db: db, schema: schema).takeSnapshot()
            try SnapshotCheck.rows(of: schema, in: db)
            // Before anything is compared by rows.
            try HeldColumns(db: db, schema: schema).restore()
            try requireConsent(to: deletion, header, schema)
            events += try settleOutbox(header, schema, parents)
            try pending.refreshBase()
            try pending.replay()
            try OwnReferences(db: db, schema: schema).settle()
        }
        try db.execute(sql: "UPDATE tidemark_device SET stale = 0, rebuilt = NULL")
        try finish(header)
        let hasPending = try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM tidemark_changeset)")
        return Applied(revision: header.revision, hasPending: hasPending ?? false, events: events)
    }

    /// Judges what waits by the rows of the snapshot, as far as they are not those that it was made
    /// on, and gives it the verdicts that never arrived.
    private func settleOutbox(_ header: SnapshotFormat.Header, _ schema: SyncSchema, _ parents: OldParents) throws
        -> [SyncEvent]
    {
        let time = Timestamp.text(now)
        let verdicts = recall.map {
            LateVerdicts(db: db, schema: schema, header: header, recall: $0, limits: limits, now: time)
        }
        if let verdicts, verdicts.recall.isAboutOther {
            return try MoveOutbox(verdicts: verdicts, parents: parents, newID: newID).move()
        }
        let events = try verdicts?.settle() ?? []
        guard hasMismatch else { return events }
        return try events + JudgeAfterReset(db: db, schema: schema, firstWaiting: 0, parents: nil, now: time).park()
    }

    /// Everything that was written here goes into the outbox, or the conflicts.
    private func drain(_ file: DeviceFile) throws {
        try EngineConnection.prepare(db, schema: file.schema)
        let outbox = DrainCapture(db: db, schema: file.schema)
        try outbox.drain(boundaries: boundaries, now: now, newID: newID)
        try DeviceFile.whileApplying(db) { try compare(file).park() }
        try outbox.drain(boundaries: [], now: now, newID: newID)
        try StagingTables.clear(in: db)
        if planted(PlantedBug.dropsOutboxOnSnapshot) {
            let all = "SELECT id FROM tidemark_changeset"
            for id in try String.fetchAll(db, sql: all) { try Outbox.remove(id, in: db) }
        }
    }

    /// What would go with this snapshot, when it is much.
    ///
    /// - Throws: `massDeletion` when the history is another one, so that nobody can confirm it.
    private func suspectDeletion(_ header: SnapshotFormat.Header, _ schema: SyncSchema) throws -> MassDeletion? {
        if case .given = consent { return nil }
        guard let deletion = try MassDeletion.inSnapshot(schema, limits: limits, in: db) else { return nil }
        guard try !isReset(header), try header.revision >= DeviceFile(db).revision else {
            throw deletion.error(because: "the server has another history now.")
        }
        if case .none = consent { throw deletion }
        return deletion
    }

    private func requireConsent(to deletion: MassDeletion?, _ header: SnapshotFormat.Header, _ schema: SyncSchema)
        throws
    {
        guard let deletion, case .confirmed(let revision, let confirmed) = consent else { return }
        guard header.revision <= revision else { throw deletion }
        let mine = try RowFingerprints(db, schema: schema).all()
        guard mine.hex == header.fingerprint, header.revision < revision || mine == confirmed else {
            throw deletion.error(because: "the server's rows say otherwise than its snapshot.")
        }
    }

    /// Whether the file knows another history than the snapshot's.
    private func isReset(_ header: SnapshotFormat.Header) throws -> Bool {
        let known = try String.fetchOne(db, sql: "SELECT epoch FROM tidemark_device")
        return known != nil && known != header.epoch
    }

    /// Refuses another history than the one that the server was asked about, or that was asked for.
    private func refuseUnasked(_ header: SnapshotFormat.Header) throws {
        let known = try String.fetchOne(db, sql: "SELECT epoch FROM tidemark_device")
        guard let expected = recall?.epoch ?? known, expected != header.epoch else { return }
        throw TidemarkError(
            .epochMismatch,
            "The snapshot is of another history than expected.",
            fix: "Nothing was changed. The server is asked again; the outbox is kept."
        )
    }

    private func finish(_ header: SnapshotFormat.Header) throws {
        try DeviceClock.receive(header.time, in: db)
        try db.execute(
            // Notes of overruled values are numbered anew in another history.
            sql: """
                UPDATE tidemark_device SET overruled = iif(epoch IS ?1, overruled, 0), epoch = ?1,
                    contact = ?2
                """,
            arguments: [header.epoch, Timestamp.text(now)]
        )
        // Edits from before the first snapshot belong to no history until now.
        try db.execute(sql: "UPDATE tidemark_changeset SET epoch = ? WHERE epoch IS NULL", arguments: [header.epoch])
        try db.execute(sql: "UPDATE tidemark_state SET revision = ?", arguments: [header.revision])
        let file = try DeviceFile(db)
        // Over other columns, rows have another fingerprint.
        let rows = ConfirmedRows(db: db, file: file)
        // Fresh rows of a large file need not be looked at once more by the next sync.
        try rows.noteCheck(now)
        try rows.keep(file.tables.isZones ? header.fingerprint.flatMap(Fingerprint.init(hex:)) : nil)
    }

    /// Runs `body` with the snapshot attached as `snapshot`.
    func attached<Result>(zone: String, _ body: (SnapshotFormat.Header) throws -> Result) throws -> Result {
        var configuration = Configuration()
        configuration.readonly = true
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON")
        }
        let header = try SnapshotCheck.blaming {
            try DatabaseQueue(path: snapshotPath, configuration: configuration).read { db in
                try SnapshotCheck.content(db)
                return try SnapshotFormat.header(in: db)
            }
        }
        try SnapshotCheck.header(header, zone: zone)
        let isLeftOver = try Bool.fetchOne(
            db,
            sql: "SELECT EXISTS (SELECT 1 FROM pragma_database_list WHERE name = 'snapshot')"
        )
        if isLeftOver == true { try detach() }
        try db.execute(sql: "ATTACH ? AS snapshot", arguments: [snapshotPath])
        let result = Result2 { try SnapshotCheck.blaming(isOwnFileSound: ownFileIsSound) { try body(header) } }
        try detach()
        return try result.get()
    }

    /// Lets go of the snapshot, also when the sync is cancelled; else no other could be attached.
    private func detach() throws {
        try db.tidyUp("DETACH snapshot")
        db.clearSchemaCache()
    }

    private func ownFileIsSound() throws -> Bool { try String.fetchOne(db, sql: "PRAGMA main.quick_check(1)") == "ok" }
}

/// `Swift.Result` under a name that generic parameters do not shadow.
private typealias Result2<Success> = Result<Success, any Error>
