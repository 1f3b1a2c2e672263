import GRDB
import TidemarkCore

/// Parks unique values that other records take: SQLite checks UNIQUE row by row, so a swap would fail in any order.
///
/// Records whose values nobody takes stay as they are, because the program's triggers see each update.
struct UniqueParking {
    private let db: Database
    private let table: SyncedTable
    /// The columns to which staged records add; their current values must stay.
    private let adding: Set<String>
    /// The columns that foreign keys refer to.
    private let referencedColumns: Set<String>

    init(_ db: Database, table: SyncedTable, in schema: SyncSchema, adding: Set<String> = []) {
        self.db = db
        self.table = table
        self.adding = adding
        referencedColumns = Set(schema.references(to: table.name).flatMap(\.reference.parentColumns))
    }

    /// Parks unique values that one staged record has and another one takes.
    func park(_ ord: Int, _ counts: [TidemarkCore.Operation: Int]) throws {
        if planted(PlantedBug.swapsWithoutParking) { return }
        let taking = counts[.create, default: 0] + counts[.update, default: 0]
        guard taking > 1, !table.uniques.isEmpty || table.hasComputedUniques else { return }
        let uniqueNames = Set(table.uniques.flatMap { $0 })
        let parkable = table.valueColumns.filter { !adding.contains($0.name) }
        let constraintColumns = parkable.filter { uniqueNames.contains($0.name) }
        // A computed value may depend on any column.
        let columns = table.hasComputedUniques ? parkable : constraintColumns
        guard !columns.isEmpty else { return }
        let partial = parkable.filter { isPartial($0.name) }
        let work = [TidemarkCore.Operation.create, .update].filter { counts[$0] != nil }
        if counts[.update] != nil { try stageCurrentValues(of: partial, ord) }
        let condition = try taken(constraintColumns, by: ord, counts: counts)
        let parkAll = {
            for operation in work {
                try park(columns, orElse: constraintColumns, where: condition, operation: operation, ord: ord)
            }
        }
        guard table.sql.uppercased().contains("CHECK") else { return try parkAll() }
        try ConnectionFlag.ignoreCheckConstraints.set(true, in: db)
        let outcome = Result { try parkAll() }
        try ConnectionFlag.ignoreCheckConstraints.set(false, in: db)
        try outcome.get()
    }

    /// Whether a column is unique in some rows only, so that a change to other columns can collide.
    private func isPartial(_ column: String) -> Bool {
        if planted(PlantedBug.overlooksPartialIndexes) { return false }
        return table.partiallyUnique?.contains(column) ?? false
    }

    /// The condition that a staged record takes a unique value of a row; always true where it is hard to tell.
    ///
    /// A record that takes a row's values differs from the row in a column that it changes.
    private func taken(_ columns: [SyncedTable.Column], by ord: Int, counts: [TidemarkCore.Operation: Int]) throws
        -> String
    {
        let hasOwnCollation = ([table.sql] + table.indexSQL).contains { SQLText.hasKeyword("COLLATE", in: $0) }
        let hasSums = table.uniques.contains { !adding.isDisjoint(with: $0) }
        guard !table.hasComputedUniques, !hasOwnCollation, !hasSums else { return "1" }
        if let created = counts[.create], columns.contains(where: { $0.defaultSQL != nil }) {
            let valueCounts = try StagedPivot(db, table: table, operation: .create, ord: ord).recordCounts
            guard columns.allSatisfy({ $0.defaultSQL == nil || valueCounts[$0.name] == created }) else { return "1" }
        }
        let conditions = columns.map {
            """
            \(SQLText.name(table.name)).\(SQLText.name($0.name)) IN (
                SELECT +cell.value -- with the affinity of the table's column
                FROM temp.tidemark_staged AS taker
                JOIN temp.tidemark_staged_cell AS cell
                    ON cell.rec = \(StagingTables.cells(of: "taker")) AND cell.col = \(SQLText.literal($0.name))
                WHERE taker.ord = ?1 AND taker.tbl = \(SQLText.literal(table.name))
                    AND taker.operation IN ('create', 'update'))
            """
        }
        return conditions.joined(separator: " OR ")
    }

    /// Adds the current values of unchanged columns to staged updates, so that they are parked, too, and restored.
    private func stageCurrentValues(of columns: [SyncedTable.Column], _ ord: Int) throws {
        let name = SQLText.name(table.name)
        for column in columns {
            try db.cachedStatement(
                sql: """
                    INSERT OR IGNORE INTO temp.tidemark_staged_cell (rec, col, value)
                    SELECT \(StagingTables.cells(of: "staged")), \(SQLText.literal(column.name)),
                        current_row.\(SQLText.name(column.name))
                    FROM temp.tidemark_staged AS staged
                    JOIN main.\(name) AS current_row
                        ON \(KeySQL.match(table, key: "staged.key", alias: "current_row."))
                    WHERE staged.ord = ?1 AND staged.tbl = \(SQLText.literal(table.name))
                        AND staged.operation = 'update'
                    """
            ).execute(arguments: [ord])
        }
    }

    /// Parks `columns`, or only `fallback` if a computed value rejects placeholders, so that a swap of those fails.
    private func park(
        _ columns: [SyncedTable.Column], orElse fallback: [SyncedTable.Column], where condition: String,
        operation: TidemarkCore.Operation, ord: Int
    ) throws {
        do { try park(columns, where: condition, operation: operation, ord: ord) } catch let error as DatabaseError
            where table.hasComputedUniques && error.isPlaceholderRejection
        {
            // The failed statement has no effect.
            try park(fallback, where: condition, operation: operation, ord: ord)
        }
    }

    private func park(
        _ columns: [SyncedTable.Column], where condition: String, operation: TidemarkCore.Operation, ord: Int
    ) throws {
        let pivot = try StagedPivot(db, table: table, operation: operation, ord: ord)
        let name = SQLText.name(table.name)
        let moving = columns.filter { pivot.recordCounts[$0.name] != nil }
        guard !moving.isEmpty else { return }
        let moves = moving.map {
            let current = "\(name).\(SQLText.name($0.name))"
            return isPartial($0.name)
                ? "1" : "\(pivot.value($0.name, otherwise: current)) IS NOT \(current)"
        }
        let targets = zip(moving, moves).map { column, move in
            let columnName = SQLText.name(column.name)
            let isReferenced = referencedColumns.contains(column.name)
            let placeholder = column.placeholder(number: "staged_pivot.rec", isReferenced: isReferenced)
            return "\(columnName) = CASE WHEN \(move) THEN \(placeholder) ELSE \(name).\(columnName) END"
        }
        let taken = "(\(moves.joined(separator: " OR "))) AND (\(condition))"
        try db.cachedStatement(sql: pivot.updateSQL(targets, where: taken)).execute(arguments: [ord])
    }
}

extension SyncedTable.Column {
    private static let realPlaceholderMin: Int64 = -(1 << 53)
    private static let integerPlaceholderMin: Int64 = -(1 << 62)

    /// Returns the SQL of a placeholder that fits the type and equals no other value; `number` is SQL, unique per row.
    ///
    /// NULLs never collide. But if a referenced value becomes NULL, its children lose the reference. Text placeholders
    /// are JSON, because expressions may read JSON. No placeholder is a mere parameter: the text of a statement without
    /// CHECK constraints must differ from that of an update, which shares the cache.
    func placeholder(number: String, isReferenced: Bool) -> String {
        guard isNotNull || isReferenced else { return "NULL" }
        let type = type.uppercased()
        if ["REAL", "DOUB", "FLOA"].contains(where: type.contains), !type.contains("INT") {
            return "\(Self.realPlaceholderMin) + \(number)"
        }
        if ["INT", "NUM", "DEC"].contains(where: type.contains) { return "\(Self.integerPlaceholderMin) + \(number)" }
        let text = #"'"tidemark parked ' || \#(number) || '"'"#
        return type.contains("BLOB") ? "CAST(\(text) AS BLOB)" : text
    }
}

extension DatabaseError {
    /// Whether an expression or its constraint failed; not a trigger, which may have ended the transaction.
    var isPlaceholderRejection: Bool {
        switch resultCode {
        case .SQLITE_ERROR: true
        case .SQLITE_CONSTRAINT: extendedResultCode != .SQLITE_CONSTRAINT_TRIGGER
        default: false
        }
    }
}
