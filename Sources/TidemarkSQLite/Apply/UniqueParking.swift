import GRDB
import TidemarkCore

/// Gives the unique columns of records that are about to change, or to go, values that nobody
/// wants.
///
/// SQLite checks UNIQUE row by row and cannot defer it, so a swap of two values fails whatever the
/// order. With the old values parked first, the final values are the only ones that are judged.
struct UniqueParking {
    private let db: Database
    private let table: SyncedTable
    /// The columns that other tables refer to.
    private let referenced: Set<String>

    /// What leaves its values behind: with `overwrite`, a creation may meet the record's old row.
    private let leavingOperations: [TidemarkCore.Operation]

    init(_ db: Database, table: SyncedTable, in schema: SyncSchema, existing: RecordWriter.Existing) {
        self.db = db
        self.table = table
        referenced = Set(schema.references(to: table.name).flatMap(\.reference.parentColumns))
        leavingOperations = existing == .overwrite ? [.create, .update, .delete] : [.update, .delete]
    }

    /// Parks where it can matter: the table has unique columns and at least two records are in
    /// play.
    func park(_ sets: StagedSets, _ counts: [TidemarkCore.Operation: Int]) throws {
        if planted(PlantedBug.swapsWithoutParking) { return }
        let taking = counts[.create, default: 0] + counts[.update, default: 0]
        let leaving = leavingOperations.reduce(0) { $0 + counts[$1, default: 0] }
        guard taking > 0, leaving > 0, taking + counts[.delete, default: 0] > 1,
            !table.uniques.isEmpty || table.hasComputedUniques
        else { return }
        let uniqueNames = Set(table.uniques.flatMap { $0 })
        let named = table.valueColumns.filter { uniqueNames.contains($0.name) }
        // Nobody says what a computed value is made of: any changing column may have to be parked.
        let columns = table.hasComputedUniques ? table.valueColumns : named
        guard !columns.isEmpty else { return }
        let partial = table.valueColumns.filter { isPartial($0.name) }
        let work = leavingOperations.filter { counts[$0] != nil }
        if counts[.update] != nil { try stageAsTheyAre(partial, sets) }
        guard table.sql.uppercased().contains("CHECK") else {
            return try work.forEach { try park(columns, orElse: named, $0, sets) }
        }
        try ConnectionFlag.ignoreCheckConstraints.set(true, in: db)
        let parked = Result { try work.forEach { try park(columns, orElse: named, $0, sets) } }
        try ConnectionFlag.ignoreCheckConstraints.set(false, in: db)
        try parked.get()
    }

    /// Whether a column is unique in some rows only, so that its value changes hands by what others
    /// say.
    private func isPartial(_ column: String) -> Bool {
        if planted(PlantedBug.overlooksPartialIndexes) { return false }
        return table.partiallyUnique?.contains(column) ?? false
    }

    /// Adds columns that an update leaves alone to what it sets, as they are: they are parked, too,
    /// and get their values back.
    private func stageAsTheyAre(_ columns: [SyncedTable.Column], _ sets: StagedSets) throws {
        let name = SQLText.name(table.name)
        for column in columns {
            try db.cachedStatement(
                sql: """
                    INSERT OR IGNORE INTO temp.tidemark_staged_cell (rec, col, value)
                    SELECT \(StagingTables.cells(of: "r")), \(SQLText.literal(column.name)), t.\(SQLText.name(column.name))
                    FROM temp.tidemark_staged AS r JOIN main.\(name) AS t
                        ON \(KeySQL.match(table, key: "r.key", alias: "t."))
                    WHERE \(sets.contains("r.ord")) AND r.tbl = \(SQLText.literal(table.name))
                        AND r.operation = 'update'
                    """
            ).execute(arguments: [sets.number])
        }
    }

    /// Parks columns, or only those that unique constraints name, where a computed value cannot be
    /// made of what is parked.
    ///
    /// Then computed values stay until they are replaced, which fails only where they change hands.
    private func park(
        _ columns: [SyncedTable.Column],
        orElse named: [SyncedTable.Column],
        _ operation: TidemarkCore.Operation,
        _ sets: StagedSets
    ) throws {
        do { try park(columns, operation, sets) } catch let error as DatabaseError
            where table.hasComputedUniques && Self.isUnfit(error)
        {
            // The statement has undone what it did.
            try park(named, operation, sets)
        }
    }

    /// Whether an expression fails, or a constraint on what it makes; a trigger that refuses may
    /// have ended the transaction.
    private static func isUnfit(_ error: DatabaseError) -> Bool {
        switch error.resultCode {
        case .SQLITE_ERROR: true
        case .SQLITE_CONSTRAINT: error.extendedResultCode != .SQLITE_CONSTRAINT_TRIGGER
        default: false
        }
    }

    private func park(_ columns: [SyncedTable.Column], _ operation: TidemarkCore.Operation, _ sets: StagedSets) throws {
        let pivot = try StagedPivot(db, table: table, operation: operation, sets: sets)
        let name = SQLText.name(table.name)
        let moving = operation == .delete ? columns : columns.filter { pivot.present[$0.name] != nil }
        guard !moving.isEmpty else { return }
        let targets = moving.map {
            let column = SQLText.name($0.name)
            let kept = "\(name).\(column)"
            let isMoving =
                operation == .delete || isPartial($0.name)
                ? "1" : pivot.value($0.name, otherwise: kept) + " IS NOT \(kept)"
            return "\(column) = CASE WHEN \(isMoving) THEN \(parkedValue($0)) ELSE \(kept) END"
        }
        try db.cachedStatement(
            sql: """
                UPDATE OR ABORT main.\(name) SET \(targets.joined(separator: ", "))
                FROM \(pivot.sql) AS s WHERE \(pivot.keyMatch)
                """
        ).execute(arguments: [sets.number])
    }

    /// A value that fits the column's type, equals no other record's, and is gone before the
    /// statement's transaction ends.
    ///
    /// NULLs never collide; but a reference that follows its parent to NULL does not come back.
    /// Text is JSON, which expressions may read.
    private func parkedValue(_ column: SyncedTable.Column) -> String {
        guard column.isNotNull || referenced.contains(column.name) else { return "NULL" }
        let type = column.type.uppercased()
        if ["REAL", "DOUB", "FLOA"].contains(where: type.contains), !type.contains("INT") {
            return "-9007199254740992 + s.rec"
        }
        if ["INT", "NUM", "DEC"].contains(where: type.contains) { return "-4611686018427387904 + s.rec" }
        let text = #"'"tidemark parked ' || s.rec || '"'"#
        return type.contains("BLOB") ? "CAST(\(text) AS BLOB)" : text
    }
}
