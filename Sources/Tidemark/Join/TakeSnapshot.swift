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
    let boundaries: [Int64]
    /// What the server knows of the outbox, when the snapshot may be of another history.
    let recall: Recall?
    let limits: Limits
    let now: Date
    let newID: () -> UUID

    /// Takes the snapshot at a path into the file behind a connection.
    package init(
        db: Database,
        snapshotPath: String,
        boundaries: [Int64] = [],
        recall: Recall? = nil,
        limits: Limits = .standard,
        now: Date,
        newID: @escaping () -> UUID
    ) {
        (self.db, self.snapshotPath, self.boundaries) = (db, snapshotPath, boundaries)
        (self.recall, self.limits, self.now, self.newID) = (recall, limits, now, newID)
    }

    /// Takes the snapshot into a file that has the zone's tables.
    ///
    /// The caller is outside a transaction; here is one, with `foreign_keys` off.
    func take() throws -> Applied {
        try attached { header in
            var applied = Applied()
            try Transaction.withoutForeignKeys(db) {
                applied = try replaceRows(header)
            }
            return applied
        }
    }

    /// Makes the zone's tables in a new file and fills them: rows first, then indexes and triggers,
    /// which is the fast order.
    @discardableResult
    package func join(device: UUID, server: String, zone: String) throws -> Applied {
        try attached { header in
            let schema = try SchemaText.decode(header.schema)
            var applied = Applied()
            try Transaction.withoutForeignKeys(db) {
                for table in schema.tables {
                    try db.execute(sql: AutoincrementSQL.rewritten(table))
                }
                try DeviceFile.enrol(device: device, server: server, zone: zone, in: db)
                try db.execute(
                    sql: "UPDATE tidemark_device SET schema = ?",
                    arguments: [header.schema]
                )
                let local = try SchemaIntrospection(db).validated(policies: schema.policies)
                for table in local.tables { try copy(table) }
                for index in schema.tables.flatMap(\.indexSQL) { try db.execute(sql: index) }
                try DeviceTables.reserveIds(local, in: db)
                try CaptureTables.install(local, guardsNewIds: true, in: db)
                try EngineConnection.prepare(db, schema: local)
                try finish(header, local)
                applied = Applied(
                    revision: header.revision,
                    events: [.snapshotTaken(revision: header.revision)]
                )
            }
            return applied
        }
    }

    // MARK: Steps

    private func replaceRows(_ header: SnapshotFormat.Header) throws -> Applied {
        try refuseUnasked(header)
        let served = try SchemaText.decode(header.schema)
        let schema = try DeviceFile.schema(header.schema, in: db)
        guard schema.shape == served.shape else {
            throw TidemarkError(
                .schemaMismatch,
                "The tables of this file have another shape than the zone's.",
                fix: "Give both sides the same tables and columns. \(difference(schema, served))"
            )
        }
        try refuseRowsOfNewTables(schema)
        try CaptureTables.install(schema, guardsNewIds: true, in: db)
        try DeviceTables.reserveIds(schema, in: db)
        try EngineConnection.prepare(db, schema: schema)
        try DrainCapture(db: db, schema: schema).drain(
            boundaries: boundaries,
            now: now,
            newID: newID
        )
        try StagingTables.clear(in: db)
        if planted(PlantedBug.dropsOutboxOnSnapshot) {
            let all = "SELECT id FROM tidemark_changeset"
            for id in try String.fetchAll(db, sql: all) { try Outbox.remove(id, in: db) }
        }
        var events = [SyncEvent.snapshotTaken(revision: header.revision)]
        try DeviceFile.whileApplying(db) {
            let pending = PendingChanges(db: db, schema: schema)
            let parents = try OldParents(noting: schema, in: db)
            for table in schema.tables.reversed() {
                try db.execute(sql: "DELETE FROM main.\(SQLText.name(table.name))")
            }
            for table in schema.tables { try copy(table) }
            if let recall {
                events += try MoveOutbox(
                    db: db,
                    schema: schema,
                    header: header,
                    recall: recall,
                    parents: parents,
                    limits: limits,
                    now: Timestamp.text(now),
                    newID: newID
                ).move()
            }
            try pending.refreshBase()
            try pending.replay()
        }
        try db.execute(sql: "UPDATE tidemark_device SET schema = ?", arguments: [header.schema])
        try finish(header, schema)
        let hasPending = try Bool.fetchOne(
            db,
            sql: "SELECT EXISTS (SELECT 1 FROM tidemark_changeset)"
        )
        return Applied(
            revision: header.revision,
            hasPending: hasPending ?? false,
            events: events
        )
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

    /// A table that has only now become a synced one was not captured: its rows would be lost.
    private func refuseRowsOfNewTables(_ schema: SyncSchema) throws {
        let known = try String.fetchOne(db, sql: "SELECT schema FROM tidemark_device")
        guard let known else { return }
        let names = Set(try SchemaText.decode(known).tables.map(\.name))
        try PrepareDevice.refuseRows(schema.tables.filter { !names.contains($0.name) }, in: db)
    }

    private func copy(_ table: SyncedTable) throws {
        let (name, columns) = (SQLText.name(table.name), SQLText.names(table.columns.map(\.name)))
        // LIMIT -1 keeps SQLite from its bulk transfer, which skips the bookkeeping of deferred
        // references.
        try db.execute(
            sql:
                "INSERT INTO main.\(name) (\(columns)) SELECT \(columns) FROM snapshot.\(name) LIMIT -1"
        )
    }

    private func finish(_ header: SnapshotFormat.Header, _ schema: SyncSchema) throws {
        let waiting = try Int.fetchOne(db, sql: "SELECT count(*) FROM tidemark_changeset") ?? 0
        if waiting == 0, let broken = try Row.fetchOne(db, sql: "PRAGMA foreign_key_check") {
            throw TidemarkError(
                .invalidResponse,
                "The snapshot has a reference that points at nothing.",
                fix: "Nothing was changed. Check the server's file with PRAGMA foreign_key_check.",
                place: .init(table: broken[0])
            )
        }
        try db.execute(
            // Notes of overruled values are numbered anew in another history.
            sql: """
                UPDATE tidemark_device SET overruled = iif(epoch IS ?1, overruled, 0), epoch = ?1,
                    contact = ?2
                """,
            arguments: [header.epoch, Timestamp.text(now)]
        )
        // Edits from before the first snapshot belong to no history until now.
        try db.execute(
            sql: "UPDATE tidemark_changeset SET epoch = ? WHERE epoch IS NULL",
            arguments: [header.epoch]
        )
        try db.execute(sql: "UPDATE tidemark_state SET revision = ?", arguments: [header.revision])
    }

    private func difference(_ local: SyncSchema, _ served: SyncSchema) -> String {
        let mine = Set(local.shape.split(separator: "\n"))
        let theirs = Set(served.shape.split(separator: "\n"))
        let missing = theirs.subtracting(mine).sorted().joined(separator: "; ")
        let extra = mine.subtracting(theirs).sorted().joined(separator: "; ")
        return
            "The zone has \(missing.isEmpty ? "nothing else" : missing); this file has \(extra.isEmpty ? "nothing else" : extra)."
    }

    /// Runs `body` with the snapshot attached as `snapshot`.
    private func attached<Result>(
        _ body: (SnapshotFormat.Header) throws -> Result
    ) throws -> Result {
        var configuration = Configuration()
        configuration.readonly = true
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON")
        }
        let header = try DatabaseQueue(path: snapshotPath, configuration: configuration).read {
            db in
            try refuseActiveContent(db)
            return try SnapshotFormat.header(in: db)
        }
        try db.execute(sql: "ATTACH ? AS snapshot", arguments: [snapshotPath])
        let result = Result2 { try body(header) }
        try db.execute(sql: "DETACH snapshot")
        return try result.get()
    }

    private func refuseActiveContent(_ db: Database) throws {
        if planted(PlantedBug.trustsSnapshot) { return }
        let other = try String.fetchOne(
            db,
            sql:
                "SELECT name FROM sqlite_master WHERE type <> 'table' OR sql LIKE 'CREATE VIRTUAL%'"
        )
        guard other == nil else {
            throw TidemarkError(
                .invalidResponse,
                "The snapshot contains more than plain tables.",
                fix: "Nothing was taken from it. Check the URL and the server."
            )
        }
    }
}

/// `Swift.Result` under a name that generic parameters do not shadow.
private typealias Result2<Success> = Result<Success, any Error>

/// Transactions in the form that taking in the server's rows needs.
enum Transaction {
    /// Runs `body` in an immediate transaction in which references are not enforced.
    ///
    /// The pragma only works outside transactions, so the caller must be outside one.
    static func withoutForeignKeys(_ db: Database, _ body: () throws -> Void) throws {
        let wasOn = try Bool.fetchOne(db, sql: "PRAGMA foreign_keys") ?? false
        try db.execute(sql: "PRAGMA foreign_keys = OFF")
        let outcome = Result {
            try db.inTransaction(.immediate) {
                try body()
                return .commit
            }
        }
        if wasOn { try db.execute(sql: "PRAGMA foreign_keys = ON") }
        try outcome.get()
    }
}
