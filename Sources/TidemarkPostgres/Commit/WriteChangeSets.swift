import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// Writes change sets into the zone's tables: a statement for each table and kind of change, all in one round trip with
/// the checks and the effects.
///
/// The order is the one of the store in SQLite: records to which no table refers are deleted first; then come creations
/// with parents first, updates, and other deletions with children first. PostgreSQL checks references at the end. It
/// checks UNIQUE row by row, so where a first attempt fails, a second one replaces unique values that records leave.
extension PostgresTransaction {
    // MARK: Values

    func prepare(_ changeSet: inout PendingChangeSet) throws {
        for record in changeSet.records {
            let table = try table(record.table)
            // A temporary id is larger than some columns, and is replaced.
            if table.table.keyKind != .integer { _ = try SentRows.convertedKey(record.key, of: table) }
            for place in record.values {
                let column = changeSet.changeSet.column(at: place, of: record)
                if table.generated.contains(column.name) {
                    changeSet.overrule(at: place)
                } else if changeSet.delta(at: place) == nil {
                    _ = try text(of: changeSet, place, for: column, of: record, in: table)
                }
            }
        }
    }

    private func text(
        of changeSet: PendingChangeSet, _ place: Int, for column: WireNames.Column, of record: PendingChangeSet.Record,
        in table: PostgresTable
    ) throws -> String? {
        let kind = table.kinds[column.place]
        if let cell = changeSet.cell(at: place) {
            // Most values need no other form.
            if cell.kind == .null { return nil }
            if cell.kind == .text, kind == .text { return changeSet.reader.plainText(of: cell) }
        }
        switch PostgresText.convert(try changeSet.value(at: place), kind) {
        case .success(let text): return text
        case .failure(let misfit):
            let place = TidemarkError.Place(table: table.table.name, key: record.key, column: column.name)
            throw PostgresText.refusal(misfit.reason, place)
        }
    }

    /// A record, by the places of its change set and of itself.
    typealias Item = (changeSet: Int, record: Int)

    func sentRows(_ items: some Sequence<Item>, of table: PostgresTable, in changeSets: [PendingChangeSet]) throws
        -> SentRows
    {
        var rows = SentRows(table)
        for item in items {
            let changeSet = changeSets[item.changeSet]
            let record = changeSet.records[item.record]
            try rows.begin(key: record.key)
            guard record.operation != .delete else { continue }
            for (place, column) in changeSet.columns(of: record) {
                if let delta = changeSet.delta(at: place) {
                    rows.add(column.place, delta)
                } else {
                    rows.setValue(column.place, try text(of: changeSet, place, for: column, of: record, in: table))
                }
            }
        }
        return rows
    }

    // MARK: Writing

    func write(_ changeSets: [PendingChangeSet], _ effect: (Effect) throws -> Void) throws {
        // PostgreSQL checks references at the end of the change set.
        try pg.queue("SET CONSTRAINTS ALL DEFERRED")
        do {
            try undoable { try write(changeSets, parking: false, effect) }.get()
        } catch let failure as PostgresFailure where failure.state == "23505" && leavesUniques(changeSets) {
            do {
                try undoable { try write(changeSets, parking: true, effect) }.get()
            } catch let failure as PostgresFailure where failure.isAboutValues {
                throw try violation(of: failure, changeSets, parking: true)
            }
        } catch let failure as PostgresFailure where failure.isAboutValues {
            throw try violation(of: failure, changeSets, parking: false)
        }
    }

    /// Whether a record of the change sets may leave a unique value to another one.
    private func leavesUniques(_ changeSets: [PendingChangeSet]) -> Bool {
        let records = changeSets.flatMap(\.records)
        guard records.count > 1 else { return false }
        return records.contains { record in
            record.operation != .create
                && served.tables[schema.tables[record.table].name]?.uniques.isEmpty == false
        }
    }

    private func write(_ changeSets: [PendingChangeSet], parking: Bool, _ effect: (Effect) throws -> Void) throws {
        var steps = Steps(pg, hasTriggers: served.hasTriggers)
        try writeRows(of: changeSets, parking: parking, &steps)
        try steps.add("SET CONSTRAINTS ALL IMMEDIATE")
        try steps.add("SET CONSTRAINTS ALL DEFERRED")
        let records = changeSets.reduce(0) { $0 + $1.records.count }
        try readEffects(.own, isFew: records <= Self.fewRecords, after: &steps, effect)
    }

    /// The most records whose effects arrive in the round trip of the write.
    private static let fewRecords = 2_000

    func writeRows(of changeSets: [PendingChangeSet], parking: Bool, _ steps: inout Steps) throws {
        var work: [Int: [Operation: [Item]]] = [:]
        for (place, changeSet) in changeSets.enumerated() {
            for (index, record) in changeSet.records.enumerated() {
                work[record.table, default: [:]][record.operation, default: []].append((place, index))
            }
        }
        let tables = work.keys.sorted()
        let parents = Set(schema.tables.flatMap(\.references).map(\.parent))
        let deletesLast = { (table: Int) in parents.contains(self.schema.tables[table].name) }
        let run = { (place: Int, operation: Operation, steps: inout Steps, make: Maker) in
            let table = try self.table(place)
            let items = work[place]?[operation] ?? []
            // PostgreSQL checks `ON DELETE RESTRICT` after each statement: one for a table that refers to itself.
            let isWhole = table.table.references.contains { $0.parent == table.table.name }
            let size = isWhole ? max(1, items.count) : Self.batchSize
            for start in stride(from: 0, to: items.count, by: size) {
                let batch = items[start..<min(items.count, start + size)]
                let rows = try self.sentRows(batch, of: table, in: changeSets)
                guard let sql = make(table, rows) else { continue }
                try steps.add(
                    sql, [self.zone] + rows.parameters(from: start),
                    changing: operation == .update && !parking ? rows.count : nil)
            }
        }
        for table in tables.reversed() where !deletesLast(table) { try run(table, .delete, &steps, Self.delete) }
        if parking {
            var number = 0
            for place in tables {
                for operation in deletesLast(place) ? [Operation.update, .delete] : [.update] {
                    let base = number
                    try run(place, operation, &steps) { table, rows in
                        number += rows.count
                        return self.park(operation, in: table, rows, from: base)
                    }
                }
            }
        }
        for table in tables { try run(table, .create, &steps, Self.create) }
        for table in tables { try run(table, .update, &steps, Self.update) }
        for table in tables.reversed() where deletesLast(table) { try run(table, .delete, &steps, Self.delete) }
    }

    private typealias Maker = (PostgresTable, SentRows) -> String?

    /// The most rows of one statement.
    private static let batchSize = 2_000

    // MARK: Statements

    private static func create(_ table: PostgresTable, _ rows: SentRows) -> String? {
        let columns = rows.columns
        let zone = table.zoneColumn.map { [SQLText.name($0)] } ?? []
        let keys = table.table.key.map { SQLText.name($0) }
        let names = columns.map { SQLText.name(table.table.columns[$0].name) }
        let keyValues = table.table.key.enumerated().map { "sent.k\($0)::\(table.wholeType($1))" }
        let values = columns.map { place in
            let name = table.table.columns[place].name
            let fill = table.defaults[name].map { "(\($0))" } ?? "NULL"
            return rows.value(place, otherwise: "\(fill)::\(table.wholeType(name))")
        }
        // Without a zone column, only the WHERE clause uses the first parameter.
        let source = (zone.isEmpty ? [] : ["$1::text"]) + keyValues + values
        return """
            INSERT INTO \(table.name) (\((zone + keys + names).joined(separator: ", ")))
            OVERRIDING SYSTEM VALUE
            SELECT \(source.joined(separator: ", "))
            FROM \(rows.derivedTable())
            WHERE $1::text IS NOT NULL
            """
    }

    /// The statement that updates; nil if no record sets a column or adds to one.
    private static func update(_ table: PostgresTable, _ rows: SentRows) -> String? {
        let targets = rows.columns.map { place in
            "\(SQLText.name(table.table.columns[place].name)) = "
                + rows.value(place, otherwise: rows.sum(place, "app_row"))
        }
        guard !targets.isEmpty else { return nil }
        return """
            UPDATE \(table.name) AS app_row
            SET \(targets.joined(separator: ", "))
            FROM \(rows.derivedTable())
            WHERE $1::text IS NOT NULL AND \(SentRows.matches(table, "app_row"))
            """
    }

    private static func delete(_ table: PostgresTable, _ rows: SentRows) -> String? {
        """
        DELETE FROM \(table.name) AS app_row
        USING \(rows.derivedTable())
        WHERE $1::text IS NOT NULL AND \(SentRows.matches(table, "app_row"))
        """
    }

    /// The statement that replaces unique values which records leave by values that equal no record's.
    private func park(_ operation: Operation, in table: PostgresTable, _ rows: SentRows, from base: Int) -> String? {
        let uniques = Set(table.uniques.values.flatMap { $0 }).subtracting(table.generated)
        let moving = table.table.columns.enumerated().filter { place, column in
            uniques.contains(column.name) && !table.table.key.contains(column.name)
                && (operation == .delete || rows.setColumns.contains(place))
        }
        guard !moving.isEmpty else { return nil }
        let targets = moving.map { place, column in
            let current = table.column(column.name, "app_row")
            let next = operation == .delete ? "NULL" : rows.value(place, otherwise: current)
            let isMoving = operation == .delete ? "true" : "\(next) IS DISTINCT FROM \(current)"
            let value = parkedValue(table, column, number: "(sent.n + \(base))")
            return "\(SQLText.name(column.name)) = CASE WHEN \(isMoving) THEN \(value) ELSE \(current) END"
        }
        return """
            UPDATE \(table.name) AS app_row
            SET \(targets.joined(separator: ", "))
            FROM \(rows.derivedTable())
            WHERE $1::text IS NOT NULL AND \(SentRows.matches(table, "app_row"))
            """
    }
}

/// Statements that are sent together, in parts of bounded size.
struct Steps {
    private let pg: PostgresConnection
    private let hasTriggers: Bool
    private var statements: [PostgresStatement] = []
    /// The number of rows that each statement has to change.
    private var changes: [Int?] = []
    private var bytes = 0

    /// The most bytes of the parameters that wait.
    private static let bytesMax = 1 << 20

    init(_ pg: PostgresConnection, hasTriggers: Bool) {
        self.pg = pg
        self.hasTriggers = hasTriggers
    }

    /// Adds a statement; throws ``PostgresFailure``, or ``Overtaken`` if one changed other than `count` rows.
    mutating func add(_ sql: String, _ parameters: [String?] = [], changing count: Int? = nil) throws {
        statements.append(PostgresStatement(sql, parameters))
        // A program's trigger or rule may keep a row as it is.
        changes.append(hasTriggers ? nil : count)
        bytes += parameters.reduce(0) { $0 + ($1?.utf8.count ?? 0) }
        if bytes > Self.bytesMax { _ = try run([]) }
    }

    /// Sends the statements that wait and these, and returns the results of these.
    mutating func run(_ last: [PostgresStatement]) throws -> [PostgresRows] {
        let results = try pg.run(statements + last)
        for (result, count) in zip(results, changes) {
            if let count, result.changes != count { throw Overtaken() }
        }
        let count = statements.count
        statements = []
        changes = []
        bytes = 0
        return Array(results.dropFirst(count))
    }
}
