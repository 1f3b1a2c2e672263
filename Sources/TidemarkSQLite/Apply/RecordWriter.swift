package import GRDB
package import TidemarkCore

/// Makes the tables agree with staged records: three statements a table, whatever the number of
/// rows.
///
/// The order is the one in which no intermediate state is refused: unique values that are about to
/// change hands are parked, then come creations with parents first, updates, and deletions with
/// children first. So a child can move away from a parent that the same change set deletes, and two
/// records can swap a unique value. On a device, where references are not enforced meanwhile,
/// deletions come first: a key may be spelled anew, which to the column is the key that goes.
package struct RecordWriter {
    /// What a creation does when the record is there already.
    package enum Existing {
        /// Fail, as on the server, where the rules have been judged before.
        case refuse
        /// Take over the values, as on a device, where the server's truth is final.
        case overwrite
    }

    private let db: Database
    private let schema: SyncSchema
    private let existing: Existing

    /// Makes a writer for a prepared connection.
    package init(_ db: Database, schema: SyncSchema, existing: Existing) {
        self.db = db
        self.schema = schema
        self.existing = existing
    }

    /// Writes the staged records of one change set.
    ///
    /// - Returns: The number of staged updates that found no record.
    /// - Throws: `DatabaseError` when a constraint refuses a record; the caller's savepoint undoes
    ///   the rest.
    @discardableResult package func write(ord: Int) throws -> Int { try write(.one(ord)) }

    /// Writes the staged records of change sets that name no record twice.
    ///
    /// - Returns: The number of staged updates that found no record.
    /// - Throws: `DatabaseError` when a constraint refuses a record; the caller undoes the rest.
    @discardableResult package func write(_ sets: StagedSets) throws -> Int {
        let work = try touched(sets)
        if existing == .overwrite { try delete(work, sets) }
        for item in work {
            try UniqueParking(db, table: item.table, in: schema, existing: existing).park(sets, item.counts)
        }
        for item in work where item.counts[.create] != nil { try create(item.table, sets) }
        var unmatched = 0
        for item in work {
            guard let expected = item.counts[.update] else { continue }
            unmatched += expected - (try update(item.table, sets, expected))
        }
        let isPartial = planted(PlantedBug.commitsWithoutDeletions)
        if existing == .refuse, !isPartial { try delete(work, sets) }
        return unmatched
    }

    private func delete(_ work: [Work], _ sets: StagedSets) throws {
        for item in work.reversed() where item.counts[.delete] != nil { try delete(item.table, sets) }
    }

    private typealias Work = (table: SyncedTable, counts: [TidemarkCore.Operation: Int])

    /// The tables that are touched, parents first, with the number of records by operation.
    private func touched(_ sets: StagedSets) throws -> [Work] {
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT tbl, operation, count(*) AS records FROM temp.tidemark_staged
                    WHERE \(sets.contains("ord")) GROUP BY tbl, operation
                    """
            ),
            arguments: [sets.number]
        )
        let byTable = try Dictionary(grouping: rows) { try $0.value("tbl") as String }
        return try schema.tables.compactMap { table in
            guard let rows = byTable[table.name] else { return nil }
            let counts = try rows.map {
                try (TidemarkCore.Operation(rawValue: $0.value("operation")) ?? .update, $0.value("records") as Int)
            }
            return (table, Dictionary(uniqueKeysWithValues: counts))
        }
    }

    // MARK: The three statements

    private func create(_ table: SyncedTable, _ sets: StagedSets) throws {
        let pivot = try StagedPivot(db, table: table, operation: .create, sets: sets)
        let columns = table.columns.filter { pivot.present.keys.contains($0.name) }
        let values = columns.map { pivot.value($0.name, otherwise: $0.defaultSQL.map { "(\($0))" } ?? "NULL") }
        var conflict = ""
        if existing == .overwrite {
            let targets = table.valueColumns.filter { pivot.present.keys.contains($0.name) }.map {
                "\(SQLText.name($0.name)) = excluded.\(SQLText.name($0.name))"
            }
            let action = targets.isEmpty ? "NOTHING" : "UPDATE SET \(targets.joined(separator: ", "))"
            conflict = "ON CONFLICT (\(SQLText.names(table.key))) DO \(action)"
        }
        // What the table says of clashes, ON CONFLICT REPLACE for instance, is for the app.
        let evicts = existing == .refuse && planted(PlantedBug.evictsUniqueHolder)
        try db.cachedStatement(
            sql: """
                INSERT OR \(evicts ? "REPLACE" : "ABORT") INTO main.\(SQLText.name(table.name)) (\(SQLText.names(columns.map(\.name))))
                SELECT \(values.joined(separator: ", ")) FROM \(pivot.inOrder) AS s WHERE true \(conflict)
                """
        ).execute(arguments: [sets.number])
    }

    private func update(_ table: SyncedTable, _ sets: StagedSets, _ expected: Int) throws -> Int {
        let pivot = try StagedPivot(db, table: table, operation: .update, sets: sets)
        let columns = table.valueColumns.filter { pivot.present.keys.contains($0.name) }
        let name = SQLText.name(table.name)
        guard !columns.isEmpty else { return expected }
        let targets = columns.map {
            let column = SQLText.name($0.name)
            return "\(column) = \(pivot.value($0.name, otherwise: "\(name).\(column)"))"
        }
        try db.cachedStatement(
            sql: """
                UPDATE OR ABORT main.\(name) SET \(targets.joined(separator: ", "))
                FROM \(pivot.sql) AS s WHERE \(pivot.keyMatch)
                """
        ).execute(arguments: [sets.number])
        return db.changesCount
    }

    private func delete(_ table: SyncedTable, _ sets: StagedSets) throws {
        let pivot = try StagedPivot(db, table: table, operation: .delete, sets: sets)
        let keys = table.key.map { "s.\(SQLText.name("v:" + $0))" }.joined(separator: ", ")
        let left = table.key.count == 1 ? SQLText.name(table.key[0]) : "(\(SQLText.names(table.key)))"
        try db.cachedStatement(
            sql: """
                DELETE FROM main.\(SQLText.name(table.name))
                WHERE \(left) IN (SELECT \(keys) FROM \(pivot.sql) AS s)
                """
        ).execute(arguments: [sets.number])
    }
}

/// Staged cells of one table, turned from a row a cell into a row a record, as a subquery.
///
/// Its column `v:name` is the value of `name`; `h:name` tells whether the record has one, and is
/// there only when some records have it and others do not.
struct StagedPivot {
    /// The parenthesised subquery.
    ///
    /// Its one parameter is ``StagedSets/number``.
    let sql: String
    /// The same, in the order in which the records were staged: for rows that are made.
    let inOrder: String
    /// How many records have a value, by column.
    let present: [String: Int]
    private let table: SyncedTable
    private let total: Int

    init(_ db: Database, table: SyncedTable, operation: TidemarkCore.Operation, sets: StagedSets) throws {
        let filter =
            "\(sets.contains("r.ord")) AND r.tbl = \(SQLText.literal(table.name)) AND r.operation = '\(operation.rawValue)'"
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT c.col, count(*) AS records FROM temp.tidemark_staged AS r
                    JOIN temp.tidemark_staged_cell AS c ON c.rec = \(StagingTables.cells(of: "r"))
                    WHERE \(filter) GROUP BY c.col
                    """
            ),
            arguments: [sets.number]
        )
        present = try Dictionary(
            uniqueKeysWithValues: rows.map { try ($0.value("col") as String, $0.value("records") as Int) }
        )
        total = present[table.key.first ?? ""] ?? 0
        self.table = table
        var parts: [String] = []
        for column in table.columns.map(\.name) where present[column] != nil {
            let cell = "temp.tidemark_staged_cell WHERE rec = n.cells AND col = \(SQLText.literal(column))"
            parts.append("(SELECT value FROM \(cell)) AS \(SQLText.name("v:" + column))")
            if present[column] != total {
                parts.append("EXISTS (SELECT 1 FROM \(cell)) AS \(SQLText.name("h:" + column))")
            }
        }
        let records =
            "SELECT r.rec, \(StagingTables.cells(of: "r")) AS cells FROM temp.tidemark_staged AS r WHERE \(filter)"
        let values = (["n.rec"] + parts).joined(separator: ", ")
        sql = "(SELECT \(values) FROM (\(records)) AS n)"
        // The limit keeps the order: without one it would be given up.
        inOrder = "(SELECT \(values) FROM (\(records) ORDER BY r.rec LIMIT -1) AS n)"
    }

    /// The staged value of a column, or another expression for records that have none.
    func value(_ column: String, otherwise: String) -> String {
        let value = "s.\(SQLText.name("v:" + column))"
        guard let count = present[column] else { return otherwise }
        guard count < total else { return value }
        return "CASE WHEN s.\(SQLText.name("h:" + column)) THEN \(value) ELSE \(otherwise) END"
    }

    /// The condition under which a row of the table is the staged record's.
    var keyMatch: String {
        table.key.map { "\(SQLText.name(table.name)).\(SQLText.name($0)) = s.\(SQLText.name("v:" + $0))" }.joined(
            separator: " AND "
        )
    }
}
