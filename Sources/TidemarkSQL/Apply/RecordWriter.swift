package import GRDB
package import TidemarkCore

/// Writes staged records into the tables, with three statements per table.
///
/// On a device the server's record is final: a creation overwrites a record that exists. SQLite rejects no intermediate
/// state, because of the order: delete records, park unique values, create records (parents first), update records. So
/// two records can swap a unique value. A device does not enforce references meanwhile and deletes first: a new key may
/// differ from a deleted one in spelling only, and the column considers both equal.
package struct RecordWriter {
    private let db: Database
    private let schema: SyncSchema

    package init(_ db: Database, schema: SyncSchema) {
        self.db = db
        self.schema = schema
    }

    /// Writes one change set, and returns its updates without a record; after an error, its caller rolls back.
    @discardableResult package func write(ord: Int) throws -> Int {
        let work = try workByTable(ord)
        for item in work.reversed() where item.counts[.delete] != nil { try delete(item.table, ord) }
        for item in work {
            let adding = try Delta.columns(of: item.table.name, in: ord, db)
            try UniqueParking(db, table: item.table, in: schema, adding: adding).park(ord, item.counts)
        }
        for item in work where item.counts[.create] != nil { try create(item.table, ord) }
        var unmatched = 0
        for item in work {
            guard let expected = item.counts[.update] else { continue }
            unmatched += expected - (try update(item.table, ord: ord, expected: expected))
        }
        return unmatched
    }

    private typealias Work = (table: SyncedTable, counts: [TidemarkCore.Operation: Int])

    /// Returns the tables with staged records, parents first, and their number by operation.
    private func workByTable(_ ord: Int) throws -> [Work] {
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT tbl, operation, count(*) AS records
                    FROM temp.tidemark_staged
                    WHERE ord = ?1
                    GROUP BY tbl, operation
                    """),
            arguments: [ord])
        let byTable = try Dictionary(grouping: rows) { try $0.value("tbl") as String }
        return try schema.tables.compactMap { table in
            guard let rows = byTable[table.name] else { return nil }
            let counts = try rows.map {
                try (TidemarkCore.Operation(rawValue: $0.value("operation")) ?? .update, $0.value("records") as Int)
            }
            return (table, Dictionary(uniqueKeysWithValues: counts))
        }
    }

    private func create(_ table: SyncedTable, _ ord: Int) throws {
        let pivot = try StagedPivot(db, table: table, operation: .create, ord: ord)
        let columns = table.columns.filter { pivot.recordCounts.keys.contains($0.name) }
        let values = columns.map { pivot.value($0.name, otherwise: $0.defaultSQL.map { "(\($0))" } ?? "NULL") }
        var conflict = ""
        var isNew = "true"
        if try hasProgramTriggers(table) {
            // ON CONFLICT DO UPDATE overrides the conflict clauses inside triggers.
            _ = try update(table, ord: ord, expected: 0, operation: .create)
            isNew = "NOT EXISTS (SELECT 1 FROM main.\(SQLText.name(table.name)) WHERE \(pivot.keyMatch))"
        } else {
            let targets = table.valueColumns.filter { pivot.recordCounts.keys.contains($0.name) }.map {
                "\(SQLText.name($0.name)) = excluded.\(SQLText.name($0.name))"
            }
            let action = targets.isEmpty ? "NOTHING" : "UPDATE SET \(targets.joined(separator: ", "))"
            conflict = "ON CONFLICT (\(SQLText.names(table.key))) DO \(action)"
        }
        try db.cachedStatement(
            sql: """
                INSERT \(table.abortClause)
                INTO main.\(SQLText.name(table.name)) (\(SQLText.names(columns.map(\.name))))
                SELECT \(values.joined(separator: ", "))
                FROM \(pivot.orderedSQL) AS staged_pivot
                WHERE \(isNew) \(conflict)
                """
        ).execute(arguments: [ord])
    }

    private func hasProgramTriggers(_ table: SyncedTable) throws -> Bool {
        try Bool.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT EXISTS (
                        SELECT 1 FROM main.sqlite_master
                        WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE
                            AND name NOT LIKE 'tidemark~_%' ESCAPE '~')
                    """),
            arguments: [table.name]
        ) ?? false
    }

    /// Updates the staged records that exist; a creation gives columns that it leaves out their defaults.
    private func update(_ table: SyncedTable, ord: Int, expected: Int, operation: TidemarkCore.Operation = .update)
        throws -> Int
    {
        let adding = operation == .update ? try Delta.columns(of: table.name, in: ord, db) : []
        let pivot = try StagedPivot(db, table: table, operation: operation, ord: ord, adding: adding)
        let columns = table.valueColumns.filter {
            pivot.recordCounts.keys.contains($0.name) || adding.contains($0.name)
        }
        let name = SQLText.name(table.name)
        guard !columns.isEmpty else { return expected }
        let replays = planted(PlantedBug.forgetsSumsInReplay)
        let targets = columns.map {
            let column = SQLText.name($0.name)
            let current = "\(name).\(column)"
            let sum = replays ? current : pivot.sum($0.name, current: current)
            let other = operation == .create ? $0.defaultSQL.map { "(\($0))" } ?? "NULL" : sum
            return "\(column) = \(pivot.value($0.name, otherwise: other))"
        }
        try db.cachedStatement(sql: pivot.updateSQL(targets)).execute(arguments: [ord])
        return db.changesCount
    }

    private func delete(_ table: SyncedTable, _ ord: Int) throws {
        let pivot = try StagedPivot(db, table: table, operation: .delete, ord: ord)
        let keys = table.key.map { "staged_pivot.\(SQLText.name("v:" + $0))" }.joined(separator: ", ")
        let keyColumns = table.key.count == 1 ? SQLText.name(table.key[0]) : "(\(SQLText.names(table.key)))"
        try db.cachedStatement(
            sql: """
                DELETE FROM main.\(SQLText.name(table.name))
                WHERE \(keyColumns) IN (SELECT \(keys) FROM \(pivot.sql) AS staged_pivot)
                """
        ).execute(arguments: [ord])
    }
}

/// A subquery that pivots the staged cells of one table into one row per record.
///
/// Its column `v:name` is the value of the column `name`. Its column `h:name` says whether the record
/// has a value; it exists only if some records have one and others do not. Its column `d:name` is the
/// delta of a column to which records add.
struct StagedPivot {
    /// The parenthesised subquery, which a statement names `staged_pivot`; its parameter is the change set's number.
    let sql: String
    /// The subquery in the order of staging, for creations.
    let orderedSQL: String
    /// The number of records with a value, by column.
    let recordCounts: [String: Int]
    private let table: SyncedTable
    private let total: Int
    private let adding: Set<String>

    init(_ db: Database, table: SyncedTable, operation: TidemarkCore.Operation, ord: Int, adding: Set<String> = [])
        throws
    {
        let filter = """
            staged.ord = ?1 AND staged.tbl = \(SQLText.literal(table.name)) \
            AND staged.operation = '\(operation.rawValue)'
            """
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT cell.col, count(*) AS records
                    FROM temp.tidemark_staged AS staged
                    JOIN temp.tidemark_staged_cell AS cell ON cell.rec = \(StagingTables.cells(of: "staged"))
                    WHERE \(filter)
                    GROUP BY cell.col
                    """),
            arguments: [ord])
        recordCounts = try Dictionary(
            uniqueKeysWithValues: rows.map { try ($0.value("col") as String, $0.value("records") as Int) })
        total = recordCounts[table.key.first ?? ""] ?? 0
        self.table = table
        self.adding = adding
        var parts: [String] = []
        for column in table.columns.map(\.name) where recordCounts[column] != nil {
            let cell = "temp.tidemark_staged_cell WHERE rec = staged_record.cells AND col = \(SQLText.literal(column))"
            parts.append("(SELECT value FROM \(cell)) AS \(SQLText.name("v:" + column))")
            if recordCounts[column] != total {
                parts.append("EXISTS (SELECT 1 FROM \(cell)) AS \(SQLText.name("h:" + column))")
            }
        }
        for column in adding.sorted() {
            let delta = "SELECT delta FROM temp.tidemark_staged_delta WHERE rec = staged_record.cells"
            parts.append("(\(delta) AND col = \(SQLText.literal(column))) AS \(SQLText.name("d:" + column))")
        }
        let records = """
            SELECT staged.rec, \(StagingTables.cells(of: "staged")) AS cells
            FROM temp.tidemark_staged AS staged
            WHERE \(filter)
            """
        let values = (["staged_record.rec"] + parts).joined(separator: ", ")
        sql = "(SELECT \(values) FROM (\(records)) AS staged_record)"
        // Without a limit SQLite would drop the ORDER BY of a subquery.
        orderedSQL = "(SELECT \(values) FROM (\(records) ORDER BY staged.rec LIMIT -1) AS staged_record)"
    }

    /// Returns a statement that updates the records' rows; its parameter is that of ``sql``.
    func updateSQL(_ targets: [String], where condition: String? = nil) -> String {
        """
        UPDATE \(table.abortClause) main.\(SQLText.name(table.name))
        SET \(targets.joined(separator: ", "))
        FROM \(sql) AS staged_pivot
        WHERE \(keyMatch)\(condition.map { " AND \($0)" } ?? "")
        """
    }

    /// Returns the SQL of a column's staged value, or another expression for records without one.
    func value(_ column: String, otherwise: String) -> String {
        let value = "staged_pivot.\(SQLText.name("v:" + column))"
        guard let count = recordCounts[column] else { return otherwise }
        guard count < total else { return value }
        return "CASE WHEN staged_pivot.\(SQLText.name("h:" + column)) THEN \(value) ELSE \(otherwise) END"
    }

    /// Returns the SQL of a column's current value plus its staged delta, if it has one.
    func sum(_ column: String, current: String) -> String {
        guard adding.contains(column) else { return current }
        let delta = "staged_pivot.\(SQLText.name("d:" + column))"
        return "tidemark_add(\(current), \(delta))"
    }

    /// The condition that matches a row of the table with its staged record.
    var keyMatch: String {
        let name = SQLText.name(table.name)
        let conditions = table.key.map { "\(name).\(SQLText.name($0)) = staged_pivot.\(SQLText.name("v:" + $0))" }
        return conditions.joined(separator: " AND ")
    }
}
