package import GRDB
import GRDBSQLite
package import TidemarkCore

/// Writes change sets into tables, with a cached statement a record.
///
/// SQLite rejects no intermediate state, because of the order: create records (parents first), update records, delete
/// records (children first). So a child can move away from a parent that the same change set deletes. Records to which
/// no table refers are deleted before all that, so that their values are free, and a program's triggers see nothing
/// else.
///
/// SQLite checks UNIQUE row by row and cannot defer it, so a swap of two values fails in any order. Then placeholders
/// replace the values that records leave first, and SQLite compares final values only.
///
/// On a device the server's record is final: a creation takes the place of a record that exists. A device does not
/// enforce references meanwhile and deletes first: a new key may differ from a deleted one in spelling only, and the
/// column considers both equal. It passes over tables and columns that only the zone has.
package struct ChangeWriter {
    private let db: Database
    private let schema: SyncSchema
    private let isDevice: Bool

    package init(_ db: Database, schema: SyncSchema, isDevice: Bool = false) {
        self.db = db
        self.schema = schema
        self.isDevice = isDevice
    }

    typealias Item = (changeSet: Int, record: Int)

    /// Writes change sets that together name no record twice; if it throws, the caller rolls back.
    ///
    /// If a unique value stands in the way of another, `rollBack` takes the rows back, and it writes all again
    /// with placeholders for the values that go. Returns the number of updates without a record.
    @discardableResult package func write(_ changeSets: [PendingChangeSet], rollBack: () throws -> Void) throws -> Int {
        do { return try write(changeSets, parking: false) } catch let error as DatabaseError
            where error.isCollision && mayExchangeUniques(changeSets)
        {
            try rollBack()
            return try write(changeSets, parking: true)
        }
    }

    /// Writes one change set in a savepoint of its own; returns the number of updates without a record.
    @discardableResult package func write(_ changeSet: PendingChangeSet) throws -> Int {
        var unmatched = 0
        try db.inSavepoint {
            unmatched = try write([changeSet]) {
                // The innermost savepoint is that of this call.
                try db.execute(sql: "ROLLBACK TO SAVEPOINT grdb")
            }
            return .commit
        }
        return unmatched
    }

    /// Whether a record of the change sets may leave a unique value to another one.
    private func mayExchangeUniques(_ changeSets: [PendingChangeSet]) -> Bool {
        let records = changeSets.flatMap(\.records)
        guard records.count > 1 else { return false }
        return records.contains { record in
            guard record.table < schema.tables.count else { return false }
            let table = schema.tables[record.table]
            return (isDevice || record.operation != .create) && (!table.uniques.isEmpty || table.hasComputedUniques)
        }
    }

    /// Writes change sets, with placeholders for unique values that go if `parking`; the caller rolls back an error.
    @discardableResult package func write(_ changeSets: [PendingChangeSet], parking: Bool) throws -> Int {
        var work: [Int: [Operation: [Item]]] = [:]
        for (place, changeSet) in changeSets.enumerated() {
            for (index, record) in changeSet.records.enumerated() where record.table < schema.tables.count {
                work[record.table, default: [:]][record.operation, default: []].append((place, index))
            }
        }
        let tables = work.keys.sorted()
        let keepsDeleted = planted(PlantedBug.commitsWithoutDeletions)
        let parents = isDevice ? [] : Set(schema.tables.flatMap(\.references).map(\.parent))
        let deletesLast = { (table: Int) in parents.contains(schema.tables[table].name) }
        for table in tables.reversed() where !keepsDeleted && !deletesLast(table) {
            try delete(work[table]?[.delete] ?? [], from: table, changeSets)
        }
        if isDevice { for table in tables { try findExisting(in: table, &work, changeSets, isNeeded: parking) } }
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
        var unmatched = 0
        for table in tables {
            unmatched += try update(work[table]?[.update] ?? [], in: table, changeSets, restoring: parkedValues)
        }
        for table in tables.reversed() where !keepsDeleted && deletesLast(table) {
            try delete(work[table]?[.delete] ?? [], from: table, changeSets)
        }
        return unmatched
    }

    /// Makes updates of the creations whose record exists, where an upsert would not do.
    ///
    /// Its `ON CONFLICT DO UPDATE` overrides the conflict clauses inside a program's triggers, and it restores no
    /// placeholder.
    private func findExisting(
        in place: Int, _ work: inout [Int: [Operation: [Item]]], _ changeSets: [PendingChangeSet], isNeeded: Bool
    ) throws {
        guard let created = work[place]?[.create], try isNeeded || hasProgramTriggers(schema.tables[place]) else {
            return
        }
        let table = schema.tables[place]
        let sql = "SELECT 1 FROM main.\(SQLText.name(table.name)) WHERE \(Self.keyMatch(table))"
        let statement = try BoundStatement(sql, in: db)
        var new: [Item] = []
        for item in created {
            var exists = false
            let key = changeSets[item.changeSet].records[item.record].key
            try statement.run({ bindKey(key, of: table, from: 1, to: $0) }, row: { _ in exists = true })
            if exists { work[place]?[.update, default: []].append(item) } else { new.append(item) }
        }
        work[place]?[.create] = new
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

    /// The columns of a record that its table has in this file, with the places of their values.
    private func columns(of record: PendingChangeSet.Record, in changeSet: PendingChangeSet) -> [(
        place: Int, column: Int
    )] {
        let count = schema.tables[record.table].columns.count
        return changeSet.columns(of: record).lazy.map { ($0.place, $0.column.place) }.filter { $0.1 < count }
    }

    private func create(_ items: [Item], in place: Int, _ changeSets: [PendingChangeSet]) throws {
        let table = schema.tables[place]
        let verb = planted(PlantedBug.evictsUniqueHolder) ? "OR REPLACE" : table.abortClause
        let keyCount = Int32(table.key.count)
        var statement: (columns: [Int], bound: BoundStatement)?
        for item in items {
            let changeSet = changeSets[item.changeSet]
            let record = changeSet.records[item.record]
            let columns = columns(of: record, in: changeSet)
            // Most records have the columns of the one before.
            if statement?.columns.elementsEqual(columns.lazy.map(\.column)) != true {
                let names = columns.map { table.columns[$0.column].name }
                let marks = Array(repeating: "?", count: table.key.count + names.count).joined(separator: ", ")
                let sql = """
                    INSERT \(verb) INTO main.\(SQLText.name(table.name)) (\(SQLText.names(table.key + names)))
                    VALUES (\(marks)) \(isDevice ? Self.upsert(table, names) : "")
                    """
                statement = (columns.map(\.column), try BoundStatement(sql, in: db))
            }
            try run(statement?.bound) { row in
                bindKey(record.key, of: table, from: 1, to: row)
                for (index, column) in columns.enumerated() {
                    try bind(changeSet, column.place, at: keyCount + Int32(index) + 1, to: row)
                }
            }
        }
    }

    private static func upsert(_ table: SyncedTable, _ names: [String]) -> String {
        let targets = names.map { "\(SQLText.name($0)) = excluded.\(SQLText.name($0))" }
        let action = targets.isEmpty ? "NOTHING" : "UPDATE SET \(targets.joined(separator: ", "))"
        return "ON CONFLICT (\(SQLText.names(table.key))) DO \(action)"
    }

    /// Updates records, and restores their parked values; returns how many do not exist.
    private func update(
        _ items: [Item], in place: Int, _ changeSets: [PendingChangeSet],
        restoring parkedValues: [RecordID: [Int: Value]]
    ) throws -> Int {
        let table = schema.tables[place]
        var unmatched = 0
        var statement: (targets: [Target], bound: BoundStatement)?
        for item in items {
            let changeSet = changeSets[item.changeSet]
            let record = changeSet.records[item.record]
            let columns = columns(of: record, in: changeSet)
            let isReplayWithoutSums = planted(PlantedBug.forgetsSumsInReplay)
            var targets = columns.map {
                Target(column: $0.column, adds: changeSet.delta(at: $0.place) != nil && !isReplayWithoutSums)
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
            try run(statement?.bound) { row in
                var index: Int32 = 0
                for column in columns {
                    index += 1
                    try bind(changeSet, column.place, at: index, to: row)
                }
                for (_, value) in restored {
                    index += 1
                    row.bind(value, at: index)
                }
                bindKey(record.key, of: table, from: index + 1, to: row)
            }
            if db.changesCount == 0 { unmatched += 1 }
        }
        return unmatched
    }

    private func run(_ statement: BoundStatement?, _ bind: (BoundStatement) throws -> Void) throws {
        // The app on a device observes its tables; nobody observes a server's.
        try isDevice ? statement?.runObserved(bind) : statement?.run(bind)
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
            try run(statement) { bindKey(key, of: table, from: 1, to: $0) }
        }
    }

    /// The condition that a row has a key, whose values are the next parameters.
    static func keyMatch(_ table: SyncedTable) -> String {
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

/// Finds broken references of written records, and of children of deleted records.
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

    /// Returns a broken reference of the records that a change set has written, or to those that it has deleted.
    package func firstBroken(by changeSet: PendingChangeSet) throws -> (table: String, key: String?)? {
        let keys = { (isWanted: (Operation) -> Bool) in
            Dictionary(grouping: changeSet.records.filter { isWanted($0.operation) }, by: \.table).mapValues {
                $0.map(\.key)
            }
        }
        return try firstBroken(written: keys { $0 != .delete }, deleted: keys { $0 == .delete })
    }

    /// Returns a broken reference of written records, or to deleted ones; both are keys by the place of their table.
    package func firstBroken(written: [Int: [String]], deleted: [Int: [String]]) throws
        -> (table: String, key: String?)?
    {
        for (place, table) in schema.tables.enumerated() {
            if let keys = written[place], !table.references.isEmpty,
                let broken = try brokenReferences(in: table, keys: keys, limit: 1).first
            {
                return (table.name, broken.key)
            }
            guard let keys = deleted[place] else { continue }
            for (child, reference) in schema.references(to: table.name)
            where try hasChildren(child, by: reference, ofDeleted: keys, in: table) { return (child.name, nil) }
        }
        return nil
    }

    private func hasChildren(
        _ child: SyncedTable, by reference: SyncedTable.Reference, ofDeleted keys: [String], in parent: SyncedTable
    ) throws -> Bool {
        let positions = reference.parentColumns.compactMap(parent.key.firstIndex)
        guard positions.count == reference.parentColumns.count else { return false }
        let columns = reference.columns.map { "c.\(SQLText.name($0))" }
        let parts = positions.map { KeySQL.part(parent, $0, of: "gone.value") }.joined(separator: ", ")
        let match = zip(columns, reference.parentColumns).map { "p.\(SQLText.name($1)) = \($0)" }
        let tuple = columns.count == 1 ? columns[0] : "(\(columns.joined(separator: ", ")))"
        return try Bool.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT EXISTS (
                        SELECT 1 FROM main.\(SQLText.name(child.name)) AS c
                        WHERE \(child.allowsZero(in: reference) ? "\(columns[0]) IS NOT 0 AND " : "")\(tuple) IN (
                                SELECT \(parts) FROM json_each(?) AS gone)
                            AND NOT EXISTS (
                                SELECT 1 FROM main.\(SQLText.name(parent.name)) AS p
                                WHERE \(match.joined(separator: " AND "))))
                    """),
            arguments: [JSONText.array(keys.map(JSONText.quote))]) ?? false
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

extension DatabaseError {
    /// Whether a row collides with one of the same key or unique value; not one that a trigger of the app refuses.
    package var isCollision: Bool {
        [.SQLITE_CONSTRAINT_UNIQUE, .SQLITE_CONSTRAINT_PRIMARYKEY, .SQLITE_CONSTRAINT_ROWID].contains(
            extendedResultCode)
    }
}
