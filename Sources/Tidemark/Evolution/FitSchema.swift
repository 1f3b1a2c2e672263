import Foundation
import GRDB
import TidemarkCore
import TidemarkSQLite

/// Fits a file's bookkeeping to its tables and to the zone's, when either was altered.
///
/// One transaction, in which nothing is lost:
///
/// 1. What was captured is drained as what it was captured as: under the old tables.
/// 2. Names that were renamed are renamed in what waits, and the zone's in the side table.
/// 3. Capture is renewed.
/// 4. Tables and columns that both sides have only now: the zone's values come out of the side
///    table into the rows, and what was written here meanwhile becomes edits of this device.
/// 5. What the zone dropped is kept as it is now, for the case that the table comes back.
/// 6. What the file no longer has of the zone's asks for a snapshot, which fills the side table.
struct FitSchema {
    let db: Database
    let now: Date
    var boundaries: KnownTransactions = []
    let newID: () -> UUID

    /// Whether the file or the zone was altered since the last fit.
    static func isNeeded(_ file: DeviceFile) -> Bool {
        file.fitted.local != file.tables.localText || file.fitted.served != file.served
    }

    /// Fits the file when its tables were altered while it is in use.
    func runIfNeeded() throws {
        let file = try DeviceFile(db)
        if Self.isNeeded(file) { try run(served: file.served) }
    }

    /// Fits the file to a zone's schema, in a transaction of the caller's with `foreign_keys` off.
    func run(served: String?) throws {
        let file = try DeviceFile(db)
        try db.execute(sql: "UPDATE tidemark_device SET schema = ?", arguments: [served])
        let new = try FileSchema(served: served, renames: file.renames, in: db)
        let isFirst = file.fitted.served == nil
        let rebuilt = try CaptureTables.rebuilt(new.common, in: db)
        if !isFirst { try note(rebuilt: rebuilt) }
        guard new.problems.isEmpty, let fitted = file.fitted.local else {
            // Edits are captured in any case; a sync names the problem.
            try renameCaptured(new.common)
            try install(new.common)
            if new.problems.isEmpty { try keep(new, served) }
            return
        }
        let isSame = file.fitted.served == served && fitted == new.localText
        guard !isSame || isFirst && !rebuilt.isEmpty else { return try install(new.common) }
        let old = try SchemaStep.Side(
            local: FileSchema.tables(fitted),
            served: file.fitted.served,
            renames: file.renames
        )
        let step = SchemaStep(old: old, new: new.common, isFirst: isFirst)
        try drain(step)
        try EngineConnection.prepare(db, schema: new.common)
        for (table, names) in step.renames { try RenameWaiting(db: db).rename(names, of: table) }
        for name in step.forgotten { try CaptureTables.forget(name, in: db) }
        try install(new.common)
        try captureRebuilt(step.new)
        if let served { try UnknownValues.rename(SchemaText.decode(served).history.renames, in: db) }
        try DeviceFile.whileApplying(db) {
            if isFirst {
                try EarlyRows(db: db, schema: step.new, now: now, newID: newID).capture()
            } else {
                try take(step)
            }
        }
        if step.hasLost { try db.execute(sql: "UPDATE tidemark_device SET stale = 1") }
        try keep(new, served)
    }

    private func install(_ schema: SyncSchema) throws {
        try CaptureTables.install(schema, guardsNewIds: true, in: db)
        try DeviceTables.reserveIds(schema, in: db)
    }

    private func keep(_ tables: FileSchema, _ served: String?) throws { try Self.keep(tables, served, in: db) }

    /// Notes what the bookkeeping is fitted to.
    static func keep(_ tables: FileSchema, _ served: String?, in db: Database) throws {
        try db.execute(
            sql: "UPDATE tidemark_device SET fitted_local = ?, fitted_schema = ?",
            arguments: [tables.localText, served]
        )
    }

    /// Drains what was captured under the old tables.
    ///
    /// Before the first snapshot everything in the file was captured; what the zone turns out not
    /// to have is the app's own business.
    private func drain(_ step: SchemaStep) throws {
        let kept = step.old.common.tables.filter { !step.isFirst || step.new.byName[$0.name] != nil }
        // While both sides did not fit, capture went on under the file's new names.
        let formerNames = step.formerNames
        for table in kept { try CaptureTables.rename(formerNames[table.name, default: [:]], of: table, in: db) }
        let schema = SyncSchema(tables: kept)
        try EngineConnection.prepare(db, schema: schema)
        try DrainCapture(db: db, schema: schema).drain(boundaries: boundaries, now: now, newID: newID)
    }

    /// Lets what was captured follow columns that the app renamed, until it can be drained.
    private func renameCaptured(_ schema: SyncSchema) throws {
        for table in schema.tables {
            let has = Set(table.columns.map(\.name))
            let names = schema.history.renames[table.name, default: [:]].filter {
                has.contains($0.value) && !has.contains($0.key)
            }
            try CaptureTables.rename(names, of: table, in: db)
        }
    }

    private func note(rebuilt: [String]) throws {
        guard !rebuilt.isEmpty else { return }
        try db.execute(
            sql: """
                UPDATE tidemark_device SET rebuilt = (
                    SELECT json_group_array(value) FROM (
                        SELECT value FROM json_each(coalesce(rebuilt, '[]'))
                        UNION SELECT value FROM json_each(?)))
                """,
            arguments: ["[" + rebuilt.map(ChangeSetJSON.quote).joined(separator: ",") + "]"]
        )
    }

    /// Captures what was written into waiting records of rebuilt tables: what they should be is
    /// known here, and the next answer would rewind them.
    private func captureRebuilt(_ schema: SyncSchema) throws {
        for table in try CompareRebuilt.tables(DeviceFile(db)) {
            try CaptureWritten(db: db, schema: schema).capture(table) { column in
                "tidemark_key(t.\(SQLText.name(column.name)))"
            }
        }
    }

    private func take(_ step: SchemaStep) throws {
        let adopt = AdoptTables(db: db, schema: step.new, now: Timestamp.text(now), newID: newID)
        let former = FormerRows(db: db, schema: step.new, now: Timestamp.text(now), newID: newID)
        for table in step.goneTables { try former.keep(table, step.old.common.difference) }
        let added = try step.addedTables.filter { try !former.capture($0) }
        for table in added { try adopt.giveTemporaryIds(table, shared: step.sharedBefore) }
        for table in added { try adopt.adopt(table) }
        try former.forgetOthers()
        for (table, columns) in step.addedColumns {
            try TakeColumns(
                db: db,
                schema: step.new,
                table: table,
                columns: columns,
                now: Timestamp.text(now),
                newID: newID
            ).take()
        }
        for table in step.alteredTables { try RenameWaiting(db: db).renewImages(of: table, step) }
        try UnknownValues(db: db, schema: step.new).forgetOthers()
        try hideUnfit(step)
    }

    /// Hides edits that wait and do not go with the rows of a new table: they deleted what one of
    /// these refers to, which the older app could not see.
    ///
    /// So it is when an answer brings such rows; the server's verdict follows. What was captured
    /// just now waits with the others first, or it would be hidden as well.
    private func hideUnfit(_ step: SchemaStep) throws {
        let check = ForeignKeyCheck(db, schema: step.new)
        let fits = try step.addedTables.allSatisfy { try check.broken(in: $0, limit: 1).isEmpty }
        guard !fits else { return }
        try DrainCapture(db: db, schema: step.new).drain(boundaries: boundaries, now: now, newID: newID)
        try StagingTables.clear(in: db)
        let pending = PendingChanges(db: db, schema: step.new)
        try pending.rewind()
        try pending.replay()
    }
}
