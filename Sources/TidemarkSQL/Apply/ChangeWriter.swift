package import GRDB
import GRDBSQLite
package import TidemarkCore

/// Writes change sets into the tables of a zone, with a cached statement a record.
///
/// SQLite rejects no intermediate state, because of the order: create records (parents first), update records, delete
/// records (children first). So a child can move away from a parent that the same change set deletes. Records to which
/// no table refers are deleted before all that, so that their values are free, and a program's triggers see nothing
/// else.
///
/// SQLite checks UNIQUE row by row and cannot defer it, so a swap of two values fails in any order. With `parking`,
/// placeholders replace the values that records leave first, and SQLite compares final values only.
package struct ChangeWriter {
    private let db: Database
    private let schema: SyncSchema

    package init(_ db: Database, schema: SyncSchema) {
        self.db = db
        self.schema = schema
    }

    fileprivate typealias Item = (changeSet: Int, record: Int)

    /// Writes change sets that together name no record twice; if it throws, the caller rolls its savepoint back.
    package func write(_ changeSets: [PendingChangeSet], parking: Bool) throws {
        var work: [Int: [Operation: [Item]]] = [:]
        for (place, changeSet) in changeSets.enumerated() {
            for (index, record) in changeSet.records.enumerated() {
                work[record.table, default: [:]][record.operation, default: []].append((place, index))
            }
        }
        let tables = work.keys.sorted()
        let keepsDeleted = planted(PlantedBug.commitsWithoutDeletions)
        let parents = Set(schema.tables.flatMap(\.references).map(\.parent))
        let deletesLast = { (table: Int) in parents.contains(schema.tables[table].name) }
        for table in tables.reversed() where !keepsDeleted && !deletesLast(table) {
            try delete(work[table]?[.delete] ?? [], from: table, changeSets)
        }
        var parkedValues: [RecordID: [Int: Value]] = [:]
        if parking, !planted(PlantedBug.swapsWithoutParking) {
            for table in tables {
                let operations: [Operation] = deletesLast(table) ? [.update, .delete] : [.update]
                let leaving = operations.flatMap { work[table]?[$0] ?? [] }
                let taking = [Operation.create, .update].flatMap { work[table]?[$0] ?? [] }
                let parking = ParkValues(db, schema: schema, table: table, changeSets: changeSets)
                parkedValues.merge(try parking.park(leaving, taking: taking)) { first, _ in first }
            }
        }
        for table in tables { try create(work[table]?[.create] ?? [], in: table, changeSets) }
        for table in tables { try update(work[table]?[.update] ?? [], in: table, changeSets, restoring: parkedValues) }
        for table in tables.reversed() where !keepsDeleted && deletesLast(table) {
            try delete(work[table]?[.delete] ?? [], from: table, changeSets)
        }
    }

    private func create(_ items: [Item], in place: Int, _ changeSets: [PendingChangeSet]) throws {
        let table = schema.tables[place]
        let verb = planted(PlantedBug.evictsUniqueHolder) ? "OR REPLACE" : table.abortClause
        let keyCount = Int32(table.key.count)
        var statement: (columns: [Int], bound: BoundStatement)?
        for item in items {
            let changeSet = changeSets[item.changeSet]
            let record = changeSet.records[item.record]
            let columns = changeSet.columns(of: record).map(\.column.place)
            // Most records have the columns of the one before.
            if statement?.columns != columns {
                let names = table.key + columns.map { table.columns[$0].name }
                let marks = Array(repeating: "?", count: names.count).joined(separator: ", ")
                let sql = """
                    INSERT \(verb) INTO main.\(SQLText.name(table.name)) (\(SQLText.names(names))) VALUES (\(marks))
                    """
                statement = (columns, try BoundStatement(sql, in: db))
            }
            try statement?.bound.run { row in
                bindKey(record.key, of: table, from: 1, to: row)
                var index = keyCount
                for (place, _) in changeSet.columns(of: record) {
                    index += 1
                    try bind(changeSet, place, at: index, to: row)
                }
            }
        }
    }

    private func update(
        _ items: [Item], in place: Int, _ changeSets: [PendingChangeSet],
        restoring parkedValues: [RecordID: [Int: Value]]
    ) throws {
        let table = schema.tables[place]
        var statement: (targets: [Target], bound: BoundStatement)?
        for item in items {
            let changeSet = changeSets[item.changeSet]
            let record = changeSet.records[item.record]
            var targets = changeSet.columns(of: record).map {
                Target(column: $0.column.place, adds: changeSet.delta(at: $0.place) != nil)
            }
            let parked = parkedValues.isEmpty ? [:] : parkedValues[RecordID(table: place, key: record.key)] ?? [:]
            let restored = parked.filter { column, _ in !targets.contains { $0.column == column } }.sorted {
                $0.key < $1.key
            }
            targets += restored.map { Target(column: $0.key, adds: false) }
            guard !targets.isEmpty else { continue }
            if statement?.targets != targets {
                let assignments = targets.map { target in
                    let name = SQLText.name(table.columns[target.column].name)
                    return target.adds ? "\(name) = tidemark_add(\(name), ?)" : "\(name) = ?"
                }
                let sql = """
                    UPDATE \(table.abortClause) main.\(SQLText.name(table.name))
                    SET \(assignments.joined(separator: ", "))
                    WHERE \(Self.keyMatch(table))
                    """
                statement = (targets, try BoundStatement(sql, in: db))
            }
            try statement?.bound.run { row in
                var index: Int32 = 0
                for (place, _) in changeSet.columns(of: record) {
                    index += 1
                    try bind(changeSet, place, at: index, to: row)
                }
                for (_, value) in restored {
                    index += 1
                    row.bind(value, at: index)
                }
                bindKey(record.key, of: table, from: index + 1, to: row)
            }
        }
    }

    /// A column that an update sets or adds to.
    private struct Target: Equatable {
        let column: Int
        let adds: Bool
    }

    private func delete(_ items: [Item], from place: Int, _ changeSets: [PendingChangeSet]) throws {
        guard !items.isEmpty else { return }
        let table = schema.tables[place]
        let sql = "DELETE FROM main.\(SQLText.name(table.name)) WHERE \(Self.keyMatch(table))"
        let statement = try BoundStatement(sql, in: db)
        for item in items {
            let key = changeSets[item.changeSet].records[item.record].key
            try statement.run { bindKey(key, of: table, from: 1, to: $0) }
        }
    }

    /// The condition that a row has a key, whose values are the next parameters.
    fileprivate static func keyMatch(_ table: SyncedTable) -> String {
        table.key.map { "\(SQLText.name($0)) = ?" }.joined(separator: " AND ")
    }

    private func bind(_ changeSet: PendingChangeSet, _ place: Int, at index: Int32, to row: BoundStatement) throws {
        if let delta = changeSet.delta(at: place) { return row.bind(delta, at: index) }
        if let cell = changeSet.cell(at: place) { return try row.bind(cell, of: changeSet.reader, at: index) }
        row.bind(try changeSet.value(at: place), at: index)
    }

    private func bindKey(_ key: String, of table: SyncedTable, from index: Int32, to row: BoundStatement) {
        if table.keyKind == .integer { return row.bind(Int64(key), at: index) }
        for (place, part) in Value.parts(ofKey: key).enumerated() { row.bind(part, at: index + Int32(place)) }
    }
}

extension SyncedTable {
    /// The clause with which a statement overrides the table's conflict clauses, such as `ON CONFLICT REPLACE`.
    ///
    /// It is empty for a table without such a clause. SQLite lets it override the clauses inside triggers
    /// as well, so that an `INSERT OR REPLACE` of a program's trigger would fail.
    package var abortClause: String { SQLText.hasKeyword("CONFLICT", in: sql) ? "OR ABORT" : "" }
}

/// Replaces unique values by placeholders, only where other records take them: a program's triggers see each update.
private struct ParkValues {
    private let db: Database
    private let schema: SyncSchema
    private let place: Int
    private let table: SyncedTable
    private let changeSets: [PendingChangeSet]
    /// The columns that foreign keys refer to.
    private let referencedColumns: Set<String>

    init(_ db: Database, schema: SyncSchema, table place: Int, changeSets: [PendingChangeSet]) {
        self.db = db
        self.schema = schema
        self.place = place
        table = schema.tables[place]
        self.changeSets = changeSets
        referencedColumns = Set(schema.references(to: table.name).flatMap(\.reference.parentColumns))
    }

    /// Parks unique values that a record leaves and another takes; returns the values of parked columns by record.
    func park(_ leaving: [ChangeWriter.Item], taking: [ChangeWriter.Item]) throws -> [RecordID: [Int: Value]] {
        guard !leaving.isEmpty, !taking.isEmpty, !table.uniques.isEmpty || table.hasComputedUniques else { return [:] }
        let adding = Set(
            taking.flatMap { item in
                let changeSet = changeSets[item.changeSet]
                return changeSet.columns(of: changeSet.records[item.record]).filter {
                    changeSet.delta(at: $0.place) != nil
                }.map(\.column.place)
            }
        )
        let uniqueNames = Set(table.uniques.flatMap { $0 })
        let parkable = schema.layouts[place].valuePlaces.filter { !adding.contains($0) }
        let constrained = parkable.filter { uniqueNames.contains(table.columns[$0].name) }
        // A computed value may depend on any column.
        let columns = table.hasComputedUniques ? parkable : constrained
        guard !columns.isEmpty else { return [:] }
        let taken = try takenValues(taking, of: constrained, adding: adding)
        guard table.sql.uppercased().contains("CHECK") else {
            return try park(leaving, columns: columns, orElse: constrained, taken: taken)
        }
        try ConnectionFlag.ignoreCheckConstraints.set(true, in: db)
        let outcome = Result { try park(leaving, columns: columns, orElse: constrained, taken: taken) }
        try ConnectionFlag.ignoreCheckConstraints.set(false, in: db)
        return try outcome.get()
    }

    /// Returns the values that records take, in canonical JSON, by column; nil where they are hard to tell.
    private func takenValues(_ taking: [ChangeWriter.Item], of constrained: [Int], adding: Set<Int>) throws
        -> [Int: Set<[UInt8]>]?
    {
        let hasOwnCollation = ([table.sql] + table.indexSQL).contains { SQLText.hasKeyword("COLLATE", in: $0) }
        let addingNames = Set(adding.map { table.columns[$0].name })
        let hasSums = table.uniques.contains { !addingNames.isDisjoint(with: $0) }
        guard !table.hasComputedUniques, !hasOwnCollation, !hasSums else { return nil }
        var taken = Dictionary(uniqueKeysWithValues: constrained.map { ($0, Set<[UInt8]>()) })
        let filled = constrained.filter { table.columns[$0].defaultSQL != nil }
        let partial = constrained.filter(isPartial)
        for item in taking {
            let changeSet = changeSets[item.changeSet]
            let record = changeSet.records[item.record]
            let newValues = try newValues(of: record, in: changeSet)
            for (column, value) in newValues where taken[column] != nil {
                guard let value = stored(value, in: column) else { return nil }
                if let form = Self.form(value) { taken[column]?.insert(form) }
            }
            if record.operation == .create, !filled.allSatisfy({ newValues[$0] != nil }) { return nil }
            // A change to another column can bring a present value into a partial index.
            guard record.operation == .update, !partial.isEmpty, let row = try presentRow(record) else { continue }
            for column in partial where newValues[column] == nil {
                if let form = Self.form(row[column]) { taken[column]?.insert(form) }
            }
        }
        return taken
    }

    private func newValues(of record: PendingChangeSet.Record, in changeSet: PendingChangeSet) throws -> [Int: Value] {
        var values: [Int: Value] = [:]
        for (place, column) in changeSet.columns(of: record) where changeSet.delta(at: place) == nil {
            values[column.place] = try changeSet.value(at: place)
        }
        return values
    }

    /// Returns a value as the column stores it; nil where that is hard to tell.
    private func stored(_ value: Value, in column: Int) -> Value? {
        switch (value, table.columns[column].affinity) {
        case (.integer(let number), "REAL"): .real(Double(number))
        case (.integer, "TEXT"), (.real, "TEXT"): nil
        case (.text(let text), "INTEGER"), (.text(let text), "REAL"), (.text(let text), "NUMERIC"):
            // SQLite makes a number of it.
            Double(text.filter { !$0.isWhitespace }) == nil ? value : nil
        default: value
        }
    }

    /// Returns a stored value as text in which 5 and 5.0 are the same; nil for NULL, which equals no value.
    private static func form(_ value: Value) -> [UInt8]? {
        switch value {
        case .null: nil
        case .real(let number): (Int64(exactly: number).map(Value.integer) ?? value).canonicalJSON
        case .integer, .text, .rawText, .blob: value.canonicalJSON
        }
    }

    /// Parks `columns`, or only `fallback` if a computed value rejects placeholders, so that a swap of those fails.
    private func park(
        _ leaving: [ChangeWriter.Item], columns: [Int], orElse fallback: [Int], taken: [Int: Set<[UInt8]>]?
    ) throws -> [RecordID: [Int: Value]] {
        var parkedValues: [RecordID: [Int: Value]] = [:]
        for (number, item) in leaving.enumerated() {
            let changeSet = changeSets[item.changeSet]
            let record = changeSet.records[item.record]
            guard let row = try presentRow(record) else { continue }
            let moving = try moving(columns, by: record, of: changeSet, from: row)
            // Another record may take a unique pair, although this one leaves only half of the pair.
            let isTaken = taken?.contains { column, values in Self.form(row[column]).map(values.contains) ?? false }
            guard !moving.isEmpty, isTaken ?? true else { continue }
            do { try park(record, moving, number: number) } catch let error as DatabaseError
                where table.hasComputedUniques && error.isPlaceholderRejection
            {
                // The failed statement has no effect.
                try park(record, moving.filter(fallback.contains), number: number)
            }
            for column in moving where record.operation == .update {
                parkedValues[RecordID(table: place, key: record.key), default: [:]][column] = row[column]
            }
        }
        return parkedValues
    }

    private func presentRow(_ record: PendingChangeSet.Record) throws -> [Value]? {
        try RowValues.first(
            """
            SELECT \(SQLText.names(table.columns.map(\.name)))
            FROM main.\(SQLText.name(table.name))
            WHERE \(ChangeWriter.keyMatch(table))
            """,
            Value.parts(ofKey: record.key),
            in: db)
    }

    /// Returns the columns whose values a record leaves; those of a partial index leave with any other column.
    private func moving(
        _ columns: [Int], by record: PendingChangeSet.Record, of changeSet: PendingChangeSet, from row: [Value]
    ) throws -> [Int] {
        guard record.operation == .update else { return columns }
        let newValues = try newValues(of: record, in: changeSet)
        return columns.filter { column in
            isPartial(column) || newValues[column].map { !$0.isSame(as: row[column]) } ?? false
        }
    }

    /// Whether a column is unique in some rows only, so that a change to other columns can collide.
    private func isPartial(_ column: Int) -> Bool {
        if planted(PlantedBug.overlooksPartialIndexes) { return false }
        return table.partiallyUnique?.contains(table.columns[column].name) ?? false
    }

    private func park(_ record: PendingChangeSet.Record, _ columns: [Int], number: Int) throws {
        guard !columns.isEmpty else { return }
        let targets = columns.map { place in
            let column = table.columns[place]
            let isReferenced = referencedColumns.contains(column.name)
            return "\(SQLText.name(column.name)) = \(column.placeholder(number: "?1", isReferenced: isReferenced))"
        }
        let match = table.key.enumerated().map { "\(SQLText.name($1)) = ?\($0 + 2)" }
        let sql = """
            UPDATE \(table.abortClause) main.\(SQLText.name(table.name))
            SET \(targets.joined(separator: ", "))
            WHERE \(match.joined(separator: " AND "))
            """
        let key = Value.parts(ofKey: record.key)
        try RowValues.read(sql, [.integer(Int64(number))] + key, in: db) { _ in }
    }
}

/// Finds broken references of staged records, and of children of deleted records.
package struct ForeignKeyCheck {
    private let db: Database
    private let schema: SyncSchema

    package init(_ db: Database, schema: SyncSchema) {
        self.db = db
        self.schema = schema
    }

    /// Whether the transaction has broken references, by SQLite's counter; `defer_foreign_keys` has to be on.
    package var hasUnresolvedReferences: Bool {
        var current: Int32 = 0
        var highest: Int32 = 0
        sqlite3_db_status(db.sqliteConnection, SQLITE_DBSTATUS_DEFERRED_FKS, &current, &highest, 0)
        return current != 0
    }

    /// Makes SQLite forget its count of the transaction's broken references.
    ///
    /// Call this only if a scan has found none but those in which 0 stands for no record. A reference that is
    /// declared DEFERRABLE stays in the count.
    package func forgetUnresolvedReferences() throws {
        try ConnectionFlag.deferForeignKeys.set(false, in: db)
        try ConnectionFlag.deferForeignKeys.set(true, in: db)
    }

    /// Returns the broken references of a table by a scan of all its rows, for use after another check failed.
    package func brokenReferences(in table: SyncedTable, limit: Int = 20) throws -> [BrokenReference] {
        try brokenReferences(of: table, rows: "main.\(SQLText.name(table.name)) AS c", limit: limit)
    }

    package func brokenReferences(in table: SyncedTable, keys: [String], limit: Int = 20) throws -> [BrokenReference] {
        try brokenReferences(
            of: table,
            rows: """
                json_each(?) AS k CROSS JOIN main.\(SQLText.name(table.name)) AS c
                    ON \(KeySQL.match(table, key: "k.value", alias: "c."))
                """,
            arguments: [JSONText.array(keys.map(JSONText.quote))],
            limit: limit)
    }

    private func brokenReferences(of table: SyncedTable, rows: String, arguments: StatementArguments = [], limit: Int)
        throws -> [BrokenReference]
    {
        try table.references.filter { $0.columns.count == 1 || !planted(PlantedBug.overlooksCompositeReferences) }
            .flatMap { reference in
                try Row.fetchAll(
                    db.cachedStatement(sql: sql(table, reference: reference, rows: rows) + " LIMIT \(limit)"),
                    arguments: arguments
                ).map {
                    BrokenReference(
                        table: table.name, key: try $0.value("key"), column: reference.columns[0],
                        parent: reference.parent, parentKey: try $0.value("parent_key"),
                        isToKey: schema.byName[reference.parent]?.key == reference.parentColumns)
                }
            }
    }

    package func all(limit: Int = 20) throws -> [BrokenReference] {
        try schema.tables.flatMap { try brokenReferences(in: $0, limit: limit) }
    }

    private func sql(_ table: SyncedTable, reference: SyncedTable.Reference, rows: String) -> String {
        let columns = reference.columns.map { "c.\(SQLText.name($0))" }
        let isNone = table.allowsZero(in: reference) ? "AND \(columns[0]) IS NOT 0 " : ""
        let match = zip(columns, reference.parentColumns).map { "p.\(SQLText.name($1)) = \($0)" }
        return """
            SELECT \(RowJSON.key(table, alias: "c.")) AS key,
                tidemark_key(\(columns.joined(separator: ", "))) AS parent_key
            FROM \(rows)
            WHERE \(columns.map { "\($0) IS NOT NULL" }.joined(separator: " AND ")) \(isNone)AND NOT EXISTS (
                SELECT 1 FROM main.\(SQLText.name(reference.parent)) AS p WHERE \(match.joined(separator: " AND ")))
            ORDER BY \(table.key.map { "c.\(SQLText.name($0))" }.joined(separator: ", "))
            """
    }
}
