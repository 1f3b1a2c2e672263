import GRDB
import TidemarkCore
import TidemarkEngine
import TidemarkSQL
import TidemarkStoreSupport

/// Applies the staged records of a change set, with three statements per table for any number of records.
///
/// The order is the one of the embedded store. First it parks unique values that move between
/// records. Then come creations with parents first, updates, and deletions with children first.
/// PostgreSQL checks references at the end of the change set.
extension PostgresTransaction {
    func apply(_ ord: Int) throws {
        let work = try tableWork(.one(ord))
        do {
            for item in work { try park(item, ord) }
            let leavingFirst = Set(work.filter(releasesGenerated).map(\.stored.table.name))
            for item in work where leavingFirst.contains(item.stored.table.name) { try delete(item, ord) }
            for item in work where item.counts[.create] != nil { try create(item, ord) }
            for item in work where item.counts[.update] != nil { try update(item, ord) }
            for item in work.reversed() where !leavingFirst.contains(item.stored.table.name) { try delete(item, ord) }
        } catch let failure as PostgresFailure where failure.isAboutValues { throw try violation(of: failure, ord) }
        try checkReferences(ord)
    }

    /// A table in change sets, with its number of records and the columns that they set, by operation.
    struct Work {
        let stored: PostgresTable
        let counts: [TidemarkCore.Operation: Int]
        let columns: [TidemarkCore.Operation: Set<String>]
        /// The columns to which updates add.
        let adding: Set<String>
    }

    /// Summarizes the staged records by table, in table order.
    func tableWork(_ sets: StagedSets) throws -> [Work] {
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT staged.tbl, staged.operation, count(DISTINCT staged.rec) AS records,
                        json_group_array(DISTINCT cell.col) AS columns
                    FROM temp.tidemark_staged AS staged
                    JOIN temp.tidemark_staged_cell AS cell USING (rec)
                    WHERE \(sets.contains("staged.ord"))
                    GROUP BY staged.tbl, staged.operation
                    """
            ),
            arguments: [sets.number]
        )
        let byTable = Dictionary(grouping: rows) { $0["tbl"] as String }
        return try schema.tables.compactMap { table in
            guard let rows = byTable[table.name], let stored = self.table(table.name) else { return nil }
            var counts = [TidemarkCore.Operation: Int]()
            var columns = [TidemarkCore.Operation: Set<String>]()
            for row in rows {
                let operation = TidemarkCore.Operation(rawValue: row["operation"]) ?? .update
                counts[operation] = row["records"]
                columns[operation] = try String.fetchSet(
                    db.cachedStatement(sql: "SELECT value FROM json_each(?)"),
                    arguments: [row["columns"]]
                )
            }
            let adding = try Delta.columns(of: table.name, in: sets, db)
            return Work(stored: stored, counts: counts, columns: columns, adding: adding)
        }
    }

    // MARK: The three statements

    /// Runs a statement for the records with an operation.
    ///
    /// One statement writes all rows of a table that refers to itself, because PostgreSQL checks
    /// `ON DELETE RESTRICT` after each statement.
    private func run(_ sql: String, item: Work, ord: Int, operation: TidemarkCore.Operation) throws {
        let table = item.stored.table
        let isWhole = table.references.contains { $0.parent == table.name }
        try PostgresText.eachRecords(table, ord: ord, operation: operation, isWhole: isWhole, in: db) { records in
            try pg.query(sql, [zoneName, records])
        }
    }

    /// The value of a column in a staged record, or another expression if it has none.
    static func value(_ table: PostgresTable, _ column: String, otherwise: String) -> String {
        "CASE WHEN staged.v ? \(SQLText.literal(column)) THEN \(table.staged(column)) ELSE \(otherwise) END"
    }

    private func create(_ item: Work, _ ord: Int) throws {
        let columns = item.columns[.create, default: []]
        try run(createSQL(item.stored, columns), item: item, ord: ord, operation: .create)
    }

    private func update(_ item: Work, _ ord: Int) throws {
        let columns = item.columns[.update, default: []]
        guard let sql = updateSQL(item.stored, columns, adding: item.adding) else { return }
        try run(sql, item: item, ord: ord, operation: .update)
    }

    private func delete(_ item: Work, _ ord: Int) throws {
        guard item.counts[.delete] != nil else { return }
        try run(deleteSQL(item.stored), item: item, ord: ord, operation: .delete)
    }

    func createSQL(_ table: PostgresTable, _ columns: Set<String>) -> String {
        let columns = table.table.columns.map(\.name).filter { columns.contains($0) }
        let zone = table.zoneColumn.map { [SQLText.name($0)] } ?? []
        let values = columns.map {
            let fallback = table.defaults[$0].map { "(\($0))" } ?? "NULL"
            return Self.value(table, $0, otherwise: "\(fallback)::\(table.wholeType($0))")
        }
        let names = zone + columns.map { SQLText.name($0) }
        // Without a zone column, only the WHERE clause uses the first parameter.
        let source = (zone.isEmpty ? [] : ["$1::text"]) + values
        return """
            INSERT INTO \(table.name) (\(names.joined(separator: ", ")))
            OVERRIDING SYSTEM VALUE
            SELECT \(source.joined(separator: ", "))
            FROM \(StagedSet.records(2))
            WHERE $1::text IS NOT NULL
            """
    }

    /// The statement that updates; nil if no record sets a column or adds to one.
    func updateSQL(_ table: PostgresTable, _ columns: Set<String>, adding: Set<String>) -> String? {
        let columns = table.table.valueColumns.map(\.name).filter { columns.contains($0) || adding.contains($0) }
        guard !columns.isEmpty else { return nil }
        let targets = columns.map { name in
            var current = table.column(name, "app_row")
            if adding.contains(name) {
                let hasDelta = "staged.d ? \(SQLText.literal(name))"
                current = "CASE WHEN \(hasDelta) THEN \(table.sum(name, "app_row")) ELSE \(current) END"
            }
            return "\(SQLText.name(name)) = \(Self.value(table, name, otherwise: current))"
        }
        return """
            UPDATE \(table.name) AS app_row
            SET \(targets.joined(separator: ", "))
            FROM \(StagedSet.records(2))
            WHERE $1::text IS NOT NULL AND \(table.matches("app_row"))
            """
    }

    func deleteSQL(_ table: PostgresTable) -> String {
        """
        DELETE FROM \(table.name) AS app_row
        USING \(StagedSet.records(2))
        WHERE $1::text IS NOT NULL AND \(table.matches("app_row"))
        """
    }

    // MARK: Unique values

    /// Whether the deletions of a table come first, because they release unique generated values.
    ///
    /// Such values cannot be parked. Without references to the table, no cascade notices the order.
    private func releasesGenerated(_ item: Work) -> Bool {
        let uniques = Set(item.stored.uniques.values.flatMap { $0 })
        return !uniques.isDisjoint(with: item.stored.generated)
            && schema.references(to: item.stored.table.name).isEmpty
    }

    /// Parks the unique columns of records that the change set updates or deletes.
    ///
    /// A parked value equals no record's. PostgreSQL checks UNIQUE row by row, so a swap would fail.
    private func park(_ item: Work, _ ord: Int) throws {
        let counts = item.counts
        let taking = counts[.create, default: 0] + counts[.update, default: 0]
        let leaving = counts[.update, default: 0] + counts[.delete, default: 0]
        let uniques = Set(item.stored.uniques.values.flatMap { $0 })
        guard taking > 0, leaving > 0, taking + counts[.delete, default: 0] > 1, !uniques.isEmpty else { return }
        for operation in [TidemarkCore.Operation.update, .delete] where counts[operation] != nil {
            let moving = item.stored.table.valueColumns.filter {
                uniques.contains($0.name) && !item.stored.generated.contains($0.name)
                    && (operation == .delete || item.columns[operation]?.contains($0.name) == true)
            }
            guard !moving.isEmpty else { continue }
            let targets = moving.map { column in
                let current = item.stored.column(column.name, "app_row")
                let isMoving =
                    operation == .delete
                    ? "true" : "\(Self.value(item.stored, column.name, otherwise: current)) IS DISTINCT FROM \(current)"
                let value = parkedValue(item.stored, column)
                return "\(SQLText.name(column.name)) = CASE WHEN \(isMoving) THEN \(value) ELSE \(current) END"
            }
            try run(
                """
                UPDATE \(item.stored.name) AS app_row
                SET \(targets.joined(separator: ", "))
                FROM \(StagedSet.records(2))
                WHERE $1::text IS NOT NULL AND \(item.stored.matches("app_row"))
                """,
                item: item,
                ord: ord,
                operation: operation
            )
        }
    }
}
