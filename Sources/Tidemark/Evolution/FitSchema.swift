import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// Fits a file's bookkeeping to its tables and to the zone's, after a change of either.
///
/// One transaction, in which nothing is lost:
///
/// 1. Drain captured changes with the old tables, under the zone's policies.
/// 2. Apply renames to pending changes, and the zone's renames to the side table.
/// 3. Install capture again.
/// 4. Values that this file had before in newly shared tables and columns become edits of this device; then a rebase
///    brings the zone's values from the side table.
/// 5. Keep the rows of tables that the zone dropped, in case the zone has the table again later.
/// 6. Follow the zone's views, virtual tables, triggers and numbers.
/// 7. Send what the server refused for want of a column that the file has now.
/// 8. If the file dropped columns or tables of the zone, request a snapshot to fill the side table. If it rebuilt
///    a table, the snapshot with which the device compares the rows does that.
struct FitSchema {
    let db: Database
    let moment: Moment
    private var now: String { moment.time }

    /// Whether a schema of file or zone has changed since the last fit, or a table was rebuilt.
    static func isNeeded(_ file: DeviceFile) -> Bool {
        file.fitted.local != file.tables.localText || file.fitted.served != file.served || file.tables.lacksTriggers
    }

    func runIfNeeded() throws {
        let file = try DeviceFile(db)
        if Self.isNeeded(file) { try run(served: file.served) }
    }

    /// Fits the file in a transaction of its own, if the app altered its tables while the engine was open.
    func runAlone() throws {
        guard Self.isNeeded(try DeviceFile(db)) else { return }
        try Transaction.withoutForeignKeys(db) { try runIfNeeded() }
    }

    /// Fits the file to a zone's schema, in the caller's transaction with `foreign_keys` off.
    func run(served: String?) throws {
        let file = try DeviceFile(db)
        try db.execute(sql: "UPDATE tidemark_device SET schema = ?", arguments: [served])
        if let served { try storeTraits(SchemaText.decode(served), renames: Renames.decode(file.renames)) }
        let new = try FileSchema(served: served, renames: file.renames, in: db)
        ProgramFunctions.addStandIns(new.common.objects, to: db)
        let isFirst = file.fitted.served == nil
        let rebuilt = try CaptureTables.rebuiltTables(of: new.common, in: db)
        if !isFirst { try storeRebuilt(rebuilt) }
        guard new.problems.isEmpty, let fitted = file.fitted.local else {
            // The triggers capture edits in any case. The next sync reports the problem.
            try renameCaptured(new.common)
            try install(new.common)
            if new.problems.isEmpty { try Self.storeFitted(new, served, in: db) }
            return
        }
        let isSame = file.fitted.served == served && fitted == new.localText
        guard !isSame || !rebuilt.isEmpty else { return try install(new.common) }
        let tables = try FileSchema.tables(fitted)
        let old =
            try file.fitted.served.map { served in
                let renames = try Renames.decode(file.renames)
                return SchemaComparison(local: tables, served: try SchemaText.decode(served), renames: renames).common
            } ?? SyncSchema(tables: tables)
        let step = SchemaStep(old: old, new: new.common, isFirst: isFirst)
        // What the comparison finds later may belong to any of these changes, so they stay together.
        try drain(step, file, rebuilt: rebuilt)
        let isConfirmed = try !isFirst && !rebuilt.isEmpty && hasConfirmedRows(old, now: new.common, file)
        if isConfirmed { try db.execute(sql: "UPDATE tidemark_device SET rebuilt = NULL") }
        try EngineConnection.prepare(db, schema: new.common)
        for (table, names) in step.renames { try RenamePendingColumns(db: db).rename(names, of: table) }
        for name in step.drainedTables {
            try StateViews.forget(name, in: db)
            try CaptureTables.forget(name, in: db)
        }
        try install(new.common)
        // Without a key, the rows of a rebuilt table may be other records than before.
        let comparable = step.new.tables.filter { rebuilt.contains($0.name) && (isConfirmed || !$0.hasRowidKey) }
        try captureMissedEdits(of: comparable, step.new)
        if let served { try UnknownValues.rename(SchemaText.decode(served).history.renames, in: db) }
        try DeviceFile.whileApplying(db) {
            let early = EarlyRows(db: db, schema: step.new, now: moment.now, newID: moment.newID)
            try isFirst ? early.capture() : fillTables(step)
        }
        try storeLack(step)
        let formerObjects = try SchemaText.objects(in: file.fitted.served)
        if formerObjects != new.common.objects {
            try DeviceObjects.follow(new.common, from: formerObjects, sharesAllColumns: new.isZones, in: db)
        }
        try Self.storeFitted(new, served, in: db)
        guard !step.addedColumns.isEmpty else { return }
        try SendAfterUpdate(round: RoundContext(db: db, file: try DeviceFile(db), moment: moment)).send()
    }

    /// Stores the zone's traits of the file's tables, under the file's own names of columns.
    private func storeTraits(_ zone: SyncSchema, renames: [ColumnRename]) throws {
        var traitsByTable: [String: TableTraits] = [:]
        for table in zone.tables {
            let columns = try String.fetchSet(db, sql: "SELECT name FROM pragma_table_info(?)", arguments: [table.name])
            let former = zone.history.renames[table.name, default: [:]].map { ($0.key, $0.value) }
            let declared = renames.filter { $0.table == table.name }.flatMap { [($0.old, $0.new), ($0.new, $0.old)] }
            let local = { (column: String) in
                guard !columns.contains(column) else { return column }
                return (former + declared).first { $0.1 == column && columns.contains($0.0) }?.0 ?? column
            }
            var traits = table.traits ?? TableTraits()
            traits.key = traits.key?.map(local)
            traits.zeroReferences = traits.zeroReferences?.map(local)
            traitsByTable[table.name] = traits
        }
        try TraitTable.store(traitsByTable, in: db)
    }

    private func install(_ schema: SyncSchema) throws {
        try CaptureTables.install(schema, guardsNewIds: true, in: db)
        try StateViews.install(schema, in: db)
        try DrawnIDs(db: db, schema: schema).settle(newID: moment.newID)
    }

    static func storeFitted(_ tables: FileSchema, _ served: String?, in db: Database) throws {
        try db.execute(
            sql: "UPDATE tidemark_device SET fitted_local = ?, fitted_schema = ?",
            arguments: [tables.localText, served])
    }

    private func storeLack(_ step: SchemaStep) throws {
        // The values of a column that was dropped and comes back were never in the side table.
        if !step.addedTables.isEmpty || !step.addedColumns.isEmpty {
            try db.execute(sql: "UPDATE tidemark_device SET stale = 1 WHERE stale = 2")
        }
        guard step.needsSnapshot else { return }
        let lack = planted(PlantedBug.parksWhatRebuildsEdit) ? DeviceFile.Lack.rows : .columns
        try db.execute(sql: "UPDATE tidemark_device SET stale = ? WHERE stale = 0", arguments: [lack.rawValue])
    }

    /// Before the first snapshot the triggers capture all tables; captures of tables that the zone lacks are dropped.
    private func drain(_ step: SchemaStep, _ file: DeviceFile, rebuilt: [String]) throws {
        let drainableTables = step.old.tables.filter { !step.isFirst || step.new.byName[$0.name] != nil }
        // While the schemas did not fit, the triggers captured under the file's new names.
        let formerNames = step.formerNames
        for table in drainableTables {
            try CaptureTables.rename(formerNames[table.name, default: [:]], of: table, in: db)
        }
        let schema = SyncSchema(tables: drainableTables, policies: step.addPolicies(of: drainableTables))
        let unaltered = step.unalteredTables.subtracting(rebuilt)
        try EngineConnection.prepare(db, schema: schema)
        try RoundContext(db: db, file: file, moment: moment).drain(
            rebuilt.isEmpty ? nil : [], schema: schema,
            renumbering: step.isFirst ? .none : .migrated(unaltered: unaltered, renames: step.renames))
    }

    /// Renames columns in captured rows that the device cannot drain yet.
    private func renameCaptured(_ schema: SyncSchema) throws {
        for table in schema.tables {
            let columns = Set(table.columns.map(\.name))
            let names = schema.history.renames[table.name, default: [:]].filter {
                columns.contains($0.value) && !columns.contains($0.key)
            }
            try CaptureTables.rename(names, of: table, in: db)
        }
    }

    private func storeRebuilt(_ tables: [String]) throws {
        guard !tables.isEmpty else { return }
        try db.execute(
            sql: """
                UPDATE tidemark_device SET rebuilt = (
                    SELECT json_group_array(value) FROM (
                        SELECT value FROM json_each(coalesce(rebuilt, '[]'))
                        UNION SELECT value FROM json_each(?)))
                """, arguments: ["[" + tables.map(JSONText.quote).joined(separator: ",") + "]"])
    }

    /// Whether all rows, without pending changes, are confirmed in the former columns: the triggers missed no write.
    private func hasConfirmedRows(_ former: SyncSchema, now: SyncSchema, _ file: DeviceFile) throws -> Bool {
        guard file.rebuilt == nil, let fingerprint = file.fingerprint,
            file.fingerprintShape == ContentHash.of(former.shape),
            former.tables.allSatisfy({ table in
                Set(now.byName[table.name]?.columns.map(\.name) ?? []).isSuperset(of: table.columns.map(\.name))
            })
        else { return false }
        let rows = RowFingerprints(db, schema: former)
        return try rows.all() - rows.outboxDifference() == fingerprint
    }

    /// The outbox has the expected values of pending records, and the next answer would rewind the records.
    private func captureMissedEdits(of tables: [SyncedTable], _ schema: SyncSchema) throws {
        for table in tables {
            try CaptureMissedEdits(db: db, schema: schema).capture(table) { column in
                "tidemark_key(t.\(SQLText.name(column.name)))"
            }
        }
    }

    /// Brings the zone's values of newly shared tables and columns; own values of them become edits or conflicts.
    private func fillTables(_ step: SchemaStep) throws {
        let adopt = AdoptTables(db: db, schema: step.new, now: now, newID: moment.newID)
        let former = FormerRows(db: db, schema: step.new, now: now, newID: moment.newID)
        for table in step.droppedTables { try former.keep(table, step.old.difference) }
        let added = try step.addedTables.filter { try !former.capture($0) }
        for table in added { try adopt.assignIDs(table, shared: step.sharedBefore) }
        for table in added { try adopt.capture(table) }
        try former.dropUnneeded()
        let columns = step.addedColumns.map { table, columns in
            TakeColumns(
                db: db, schema: step.new, table: table, columns: columns, now: now, newID: moment.newID)
        }
        try DifferingValues.createTable(in: db)
        for column in columns { try column.compare() }
        let round = RoundContext(db: db, file: try DeviceFile(db), moment: moment)
        for (table, columns) in step.addedColumns {
            for column in columns { try SendAfterUpdate(round: round).fill(column, of: table) }
        }
        // Without its key, the file cannot tell which of the rows have pending edits.
        let isUnmatched = try CompareRebuilt.state(of: round.file) == .unkeyed
        for table in step.alteredTables {
            try RenamePendingColumns(db: db).rebuildImages(of: table, step, isUnmatched: isUnmatched)
        }
        if !isUnmatched { try round.drain() }
        let take = { (body: () throws -> Void) in
            do { try body() } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
                // The table has constraints of its own. The device requests a snapshot, which names the row.
                try db.execute(sql: "UPDATE tidemark_device SET stale = 1")
            }
        }
        // The conflicts of this step have no event; the list of conflicts shows them.
        _ = try round.rebase(isUnmatched ? .unmatched : .edited) {
            for column in columns { try take(column.take) }
            for table in added { try take { try adopt.take(table) } }
            try UnknownValues(db: db, schema: step.new).deleteUnneeded()
            return []
        }
    }
}
