package import Foundation
package import GRDB
import TidemarkCore
import TidemarkSQL

/// Fills a device's tables from a snapshot.
///
/// The device needs one at first, and again if it is behind the compaction horizon or the server's
/// history has changed. Pending changes stay in the outbox and are replayed on the new rows.
///
/// The snapshot is untrusted input. The device attaches it without trusted schema, reads only plain
/// tables, copies only columns that its own tables have, and checks all references before the commit.
package struct TakeSnapshot {
    let db: Database
    let snapshotPath: String
    /// The server's knowledge of the outbox; nil without unanswered change sets and doubt about the history.
    let recall: Recall?
    let moment: Moment
    var trust = BaseTrust.confirmed
    /// Whether a snapshot may delete many records.
    var consent = MassDeletion.Consent.none
    /// The file's state when the device requested the snapshot; nil: any state will do.
    var requestState: FileState?
    var missingRows = MissingRows.taken
    /// Gets the number of records that the tables have so far, of how many.
    var onRecords: (_ records: Int, _ total: Int) -> Void = { _, _ in }

    /// Whether the file's rows are those of its revision.
    enum BaseTrust: Hashable, Sendable { case confirmed, differing }

    /// What the device does about rows of rebuilt tables that only the zone has.
    enum MissingRows: Hashable, Sendable {
        /// It asks the server for their histories.
        case investigated
        /// It takes them: the histories are known, and rows of a later snapshot are not older.
        case taken
    }

    init(db: Database, snapshotPath: String, recall: Recall? = nil, moment: Moment) {
        self.db = db
        self.snapshotPath = snapshotPath
        self.recall = recall
        self.moment = moment
    }

    package init(db: Database, snapshotPath: String, now: Date, newID: @escaping () -> UUID) {
        self.init(db: db, snapshotPath: snapshotPath, moment: Moment(now: now, newID: newID))
    }

    /// Applies the snapshot to a file that has the zone's tables.
    ///
    /// If the file's state has changed since the request, nothing is applied. The caller must not be
    /// in a transaction; this function runs one with `foreign_keys` off, and `finally` at its end.
    func take(finally: (ApplyResult) throws -> Void) throws -> ApplyResult {
        try withAttachedSnapshot(zone: DeviceFile(db).zone) { header in
            try Transaction.withoutForeignKeys(db) {
                if let requestState, try requestState != FileState(DeviceFile(db)) {
                    return ApplyResult(outcome: .overtaken)
                }
                let applied = try header.since.map { try takeDelta(header, since: $0) } ?? replaceRows(header)
                try DrawnIDs(db: db, schema: DeviceFile(db).schema).settle(newID: moment.newID)
                try finally(applied)
                return applied
            }
        }
    }

    /// Creates the zone's tables in a new file and fills them.
    ///
    /// It inserts the rows before it creates indexes and triggers, because that is faster. `functions` are those of
    /// programs that the zone's statements may call.
    @discardableResult package func join(device: UUID, server: String, zone: String, functions: [String] = []) throws
        -> ApplyResult
    {
        try withAttachedSnapshot(zone: zone) { header in
            guard header.since == nil else { throw SnapshotCheck.unusable("it has not all rows.") }
            let schema = try SchemaText.decode(header.schema)
            return try Transaction.withoutForeignKeys(db) {
                let tables = try JoinedTables(creating: schema, for: .device, in: db)
                try DeviceFile.enrol(device: device, server: server, zone: zone, in: db)
                try db.execute(sql: "UPDATE tidemark_device SET schema = ?", arguments: [header.schema])
                try DeviceObjects.permit(functions, in: db)
                let objects = try DeviceObjects(schema.objects, schema: schema, indexes: tables.indexes, in: db)
                try objects.requireOrdinaryTables()
                try objects.create(.beforeRows)
                try objects.setVersions(schema)
                var records = 0
                for table in schema.tables { records += try SnapshotRows.copy(table, schema.difference, in: db) }
                let local = try tables.index()
                try SnapshotCheck.rows(of: local, in: db)
                try DrawnIDs(db: db, schema: local).settle(newID: moment.newID)
                try CaptureTables.install(local, guardsNewIds: true, in: db)
                try StateViews.install(local, in: db)
                try objects.create(.afterRows)
                let file = try DeviceFile(db)
                try FitSchema.storeFitted(file.tables, header.schema, in: db)
                try EngineConnection.prepare(db, schema: file.schema)
                try finish(header)
                return ApplyResult(
                    revision: header.revision, events: [.snapshotTaken(revision: header.revision, records: records)])
            }
        }
    }

    /// What a snapshot brings a comparison of rebuilt tables.
    enum RebuiltComparison {
        case compared([DeviceEvent])
        /// The file is at an earlier revision, so the device has kept the snapshot's rows of these tables.
        case earlierFile(than: Int64)
        case outdated
    }

    /// Compares rebuilt tables with the snapshot and captures the differences as edits.
    ///
    /// Both must be at one revision. From a later snapshot, the device keeps the rows until it has that revision.
    func compareRebuilt() throws -> RebuiltComparison {
        try withAttachedSnapshot(zone: DeviceFile(db).zone) { header in
            try Transaction.withoutForeignKeys(db) {
                let round = try RoundContext(db, at: moment)
                let file = round.file
                try round.drain()
                guard header.since == nil, header.epoch == file.epoch, header.revision >= file.revision,
                    header.schema == file.served, file.lack != .rows
                else { return .outdated }
                if header.revision == file.revision {
                    return .compared(try CaptureRebuilt(round: round).compare(with: .snapshot))
                }
                guard try CompareRebuilt.keepRows(of: file, in: db) else { return .outdated }
                // Later answers overwrite the values that they bring once more.
                if file.lack == .columns {
                    try UnknownValues(db: db, schema: file.schema).replaceFromSnapshot()
                    try db.execute(sql: "UPDATE tidemark_device SET stale = 0")
                }
                return .earlierFile(than: header.revision)
            }
        }
    }

    // MARK: Steps

    /// Applies a delta; the device requests one only while its rows are those of its revision.
    private func takeDelta(_ header: SnapshotFormat.Header, since: Int64) throws -> ApplyResult {
        guard recall?.isAboutOther != true, trust == .confirmed, case .none = consent else {
            throw SnapshotCheck.unusable("it has not all rows.")
        }
        return try TakeDelta(round: RoundContext(db, at: moment), header: header, since: since, recall: recall).take()
    }

    private func replaceRows(_ header: SnapshotFormat.Header) throws -> ApplyResult {
        try refuseOtherHistory(header)
        try FitSchema(db: db, moment: moment).run(served: header.schema)
        let round = try RoundContext(db, at: moment)
        let file = round.file
        if let problem = file.tables.problems.first { throw problem }
        let schema = file.schema
        let isSame = header.epoch == file.epoch && header.revision == file.revision
        try round.drainWithUnsentRows()
        if let recall, recall.isAboutOther { try ForgottenChanges(db: db).note(recall) }
        let othersMayHaveDeleted = !isSame
        if missingRows == .investigated, othersMayHaveDeleted, header.epoch == file.epoch,
            try ReplacedRows(db: db, schema: schema).keepMissing(of: CompareRebuilt.tables(file))
        {
            return ApplyResult(revision: file.revision, outcome: .needsHistories)
        }
        var events = try parkRebuilt(round, othersMayHaveDeleted: othersMayHaveDeleted)
        let deletion = try suspectDeletion(header, schema)
        let hasEdits = try hasUncapturedEdits(file)
        let isSound = try !hasEdits || isOwnFileSound()
        events += try round.rebase(.replaced) {
            var events: [DeviceEvent] = []
            let parents = try OldParents(of: schema, in: db)
            if hasEdits { try round.uncaptured.keepAllRows(besides: CompareRebuilt.tables(file)) }
            for table in schema.tables.reversed() {
                try db.execute(sql: "DELETE FROM main.\(SQLText.name(table.name))")
            }
            try DeviceObjects.createWaiting(schema, in: db)
            let records = try SnapshotRows.copyAll(schema, in: db, progress: onRecords)
            events.append(.snapshotTaken(revision: header.revision, records: records))
            try UnknownValues(db: db, schema: schema).replaceFromSnapshot()
            try SnapshotCheck.rows(of: schema, in: db)
            // Restore local columns before any comparison of rows.
            try UnservedColumns(db: db, schema: schema).restore()
            try deletion?.requireConsent(
                consent, at: header.revision, header.fingerprint.flatMap(Fingerprint.init(hex:)), file: file,
                rows: RowFingerprints(db, schema: schema))
            if hasEdits {
                events += try round.uncaptured.parkReplaced(since: isSame ? .same(withDeletions: isSound) : .earlier)
            }
            try ForgottenChanges(db: db).clear()
            return try events + settleOutbox(header, round, parents: parents)
        }
        try ReplacedRows(db: db, schema: schema).forgetAll()
        try db.execute(sql: "UPDATE tidemark_device SET stale = 0, rebuilt = NULL")
        try finish(header)
        let hasPending = try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM tidemark_changeset)")
        return ApplyResult(revision: header.revision, hasPending: hasPending ?? false, events: events)
    }

    /// Whether rows may differ from the confirmed ones.
    ///
    /// Without their fingerprint, the comparison that led here counts. A file that has rebuilt a table knows none until
    /// it has compared its rows, which a server with another history cannot do.
    private func hasUncapturedEdits(_ file: DeviceFile) throws -> Bool {
        guard !file.isStale else { return false }
        let confirmed = ConfirmedRows(db: db, file: file)
        guard let expected = confirmed.expectedFingerprint else {
            return trust == .differing || (file.rebuilt != nil && recall?.isAboutOther == true)
        }
        return try confirmed.computeFingerprint() != expected
    }

    /// Applies late verdicts to the outbox and judges the rest by the snapshot's rows if they may differ.
    private func settleOutbox(_ header: SnapshotFormat.Header, _ round: RoundContext, parents: OldParents) throws
        -> [DeviceEvent]
    {
        let verdicts = recall.map { LateVerdicts(round: round, header: header, recall: $0) }
        if let verdicts, verdicts.recall.isAboutOther {
            return try MoveOutbox(verdicts: verdicts, parents: parents).move()
        }
        let events = try verdicts?.settle() ?? []
        guard trust == .differing else { return events }
        return try events
            + JudgeAfterReset(
                db: db, schema: round.schema, firstWaiting: 0, parents: nil, now: round.time, knowsVerdicts: true
            ).park()
    }

    private func parkRebuilt(_ round: RoundContext, othersMayHaveDeleted: Bool) throws -> [DeviceEvent] {
        let file = round.file
        var events: [DeviceEvent] = []
        try DeviceFile.whileApplying(db) {
            events += try ReplacedRows(db: db, schema: file.schema).park(
                restored: [], now: moment.time, newID: moment.newID)
            let comparison = CompareRebuilt(
                db: db, schema: file.schema, tables: try CompareRebuilt.tables(file), now: moment.time,
                newID: moment.newID)
            try comparison.restoreRowids()
            try comparison.park(othersMayHaveDeleted: othersMayHaveDeleted)
        }
        try round.drainFound()
        try runPlanted(PlantedBug.dropsOutboxOnSnapshot, in: db)
        return events
    }

    /// Throws `massDeletion` if the history differs, because then the server cannot confirm it.
    private func suspectDeletion(_ header: SnapshotFormat.Header, _ schema: SyncSchema) throws -> MassDeletion? {
        if case .approved = consent { return nil }
        guard let deletion = try MassDeletion.findInSnapshot(schema, limits: moment.limits, in: db) else { return nil }
        let file = try DeviceFile(db)
        guard file.epoch ?? header.epoch == header.epoch, header.revision >= file.revision else {
            throw deletion.error(because: "the server's history has changed.")
        }
        if case .none = consent { throw deletion }
        return deletion
    }

    /// Refuses a snapshot of another history than the server named in its last answer.
    private func refuseOtherHistory(_ header: SnapshotFormat.Header) throws {
        guard let expected = try recall?.epoch ?? DeviceFile(db).epoch, expected != header.epoch else { return }
        throw TidemarkError(
            .epochMismatch, "The snapshot belongs to an unexpected history.",
            fix: "Nothing was changed. The device asks the server again; the outbox is kept.")
    }

    private func finish(_ header: SnapshotFormat.Header) throws {
        try DeviceClock.receive(header.time, in: db)
        let epoch = try DeviceFile(db).epoch
        if epoch != nil, epoch != header.epoch { try DrawnIDs.startAnew(newID: moment.newID, in: db) }
        try db.execute(
            // Each history numbers the notes of overruled values from 1.
            sql: """
                UPDATE tidemark_device
                SET overruled = iif(epoch IS ?1, overruled, 0), epoch = ?1, contact = ?2, zone = ?3
                """,
            // A file that asked for its user's private zone keeps to that one.
            arguments: [header.epoch, moment.time, header.zone])
        // Edits made before the first snapshot join the snapshot's history.
        try db.execute(sql: "UPDATE tidemark_changeset SET epoch = ? WHERE epoch IS NULL", arguments: [header.epoch])
        try db.execute(sql: "UPDATE tidemark_state SET revision = ?", arguments: [header.revision])
        let file = try DeviceFile(db)
        let rows = ConfirmedRows(db: db, file: file)
        // The rows are fresh, so the next sync need not compute their fingerprint again.
        try rows.recordCheck(moment.now)
        // A fingerprint covers columns, so the zone's is valid only for the zone's own columns.
        try rows.store(file.tables.isZones ? header.fingerprint.flatMap(Fingerprint.init(hex:)) : nil)
    }

    func withAttachedSnapshot<Result>(zone: String, _ body: (SnapshotFormat.Header) throws -> Result) throws -> Result {
        var configuration = Configuration()
        configuration.readonly = true
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON")
        }
        let header = try SnapshotCheck.typingErrors {
            try DatabaseQueue(path: snapshotPath, configuration: configuration).read { db in
                try SnapshotCheck.content(db)
                return try SnapshotFormat.header(in: db)
            }
        }
        try SnapshotCheck.header(header, zone: zone)
        let isLeftOver = try Bool.fetchOne(
            db, sql: "SELECT EXISTS (SELECT 1 FROM pragma_database_list WHERE name = 'snapshot')")
        if isLeftOver == true { try detach() }
        try db.execute(sql: "ATTACH ? AS snapshot", arguments: [snapshotPath])
        let result = Swift.Result {
            try SnapshotCheck.typingErrors(isOwnFileSound: isOwnFileSound) { try body(header) }
        }
        try detach()
        return try result.get()
    }

    /// Detaches the snapshot, even if the sync is cancelled; otherwise the next one could not be attached.
    private func detach() throws {
        try db.tidyUp("DETACH snapshot")
        db.clearSchemaCache()
    }

    private func isOwnFileSound() throws -> Bool { try String.fetchOne(db, sql: "PRAGMA main.quick_check(1)") == "ok" }
}
