package import GRDB
package import TidemarkCore
import TidemarkEmbedded
package import TidemarkEngine

/// What a store does behind the seam, as plain as possible: the app's rows are a dictionary.
///
/// The effects of a write are the difference of two dictionaries, and a savepoint is a copy. Only the books are in
/// SQLite, on a connection that has no table of the app. The model has no other programs, and its tables have no
/// triggers, defaults, `CHECK` rules, sums or second spellings of a value.
package final class ModelZone: CommitTransaction, FileBooks {
    package typealias Rows = [RecordID: [Value]]

    package let db: Database
    package let books: BookState
    package private(set) var content: Rows

    /// Begins with rows, inside a transaction on the books; `hash` is the schema's.
    package init(_ db: Database, _ content: Rows, ways: ZoneWays, hash: String) {
        self.db = db
        self.content = content
        books = BookState(schema: hash, ways: ways)
    }

    package func absorbOutsideChanges() throws {}

    package func refusal(for error: any Error) throws -> any Error { error }

    package func savepoint<Success>(_ body: () throws -> Success) throws -> Result<Success, any Error> {
        let before = content
        try db.execute(sql: "SAVEPOINT model")
        do {
            let success = try body()
            try db.execute(sql: "RELEASE model")
            return .success(success)
        } catch {
            try db.execute(sql: "ROLLBACK TO model; RELEASE model")
            content = before
            return .failure(error)
        }
    }

    // MARK: Names and values

    /// The records of a table, in the order of their keys.
    private func names(of place: Int) -> [RecordID] {
        content.keys.filter { $0.table == place }.sorted { bound($0) < bound($1) }
    }

    private func bound(_ name: RecordID) -> KeyRange.Bound {
        guard schema.tables[name.table].keyKind == .integer, let id = Int64(name.key) else { return .json(name.key) }
        return .integer(id)
    }

    private func values(_ columns: [String], of row: [Value]?, in place: Int) -> [Value] {
        columns.map { column in
            let index = schema.tables[place].columns.firstIndex { $0.name == column }
            return index.flatMap { row?[$0] } ?? .null
        }
    }

    /// The records whose columns have these values; none if one is NULL.
    private func names(with values: [Value], in columns: [String], of place: Int) -> [RecordID] {
        guard !values.contains(.null) else { return [] }
        return names(of: place).filter { self.values(columns, of: content[$0], in: place) == values }
    }

    private func referrers(to row: [Value], of place: Int) -> [(name: RecordID, reference: SyncedTable.Reference)] {
        schema.references(to: schema.tables[place].name).flatMap { child, reference in
            let parent = values(reference.parentColumns, of: row, in: place)
            return names(with: parent, in: reference.columns, of: schema.places[child.name] ?? 0).map {
                ($0, reference)
            }
        }
    }
}

// MARK: - Writing

extension ModelZone {
    package func write(_ changeSets: [PendingChangeSet], _ effect: (Effect) throws -> Void) throws {
        let before = content
        for changeSet in changeSets {
            for record in changeSet.records where record.operation != .delete { try set(record, of: changeSet) }
        }
        // Children first: their deletion frees the parents.
        let deletions = changeSets.flatMap(\.records).filter { $0.operation == .delete }
        for record in deletions.sorted(by: { $0.table > $1.table }) {
            delete(RecordID(table: record.table, key: record.key))
        }
        try checkUniques()
        try checkReferences(changeSets)
        for name in Set(before.keys).union(content.keys).sorted(by: { ($0.table, $0.key) < ($1.table, $1.key) }) {
            if let found = CapturedPath(from: before[name], to: content[name]).effect(on: name) { try effect(found) }
        }
    }

    /// Returns the row that a creation or an update leads to; nil for an update of a record that does not exist.
    private func row(_ record: PendingChangeSet.Record, of changeSet: PendingChangeSet) throws -> [Value]? {
        let name = RecordID(table: record.table, key: record.key)
        let isNew = record.operation == .create
        let start = isNew ? try schema.layouts[record.table].row(key: record.key, object: "{}") : content[name]
        guard var row = start else { return nil }
        for (place, column) in changeSet.columns(of: record) { row[column.place] = try changeSet.value(at: place) }
        return row
    }

    private func set(_ record: PendingChangeSet.Record, of changeSet: PendingChangeSet) throws {
        let name = RecordID(table: record.table, key: record.key)
        let table = schema.tables[record.table]
        guard record.operation != .create || content[name] == nil else {
            throw Self.duplicate(in: table, columns: table.key)
        }
        guard let row = try row(record, of: changeSet) else { return }
        if let missing = zip(table.columns, row).first(where: { $0.isNotNull && $1 == .null })?.0 {
            let reason = "NOT NULL constraint failed: \(table.name).\(missing.name)"
            throw Violation.refusal(.constraintViolated(reason, in: table.name, missing.name))
        }
        content[name] = row
    }

    /// Deletes a record, and does to its children what their references say; others have no parent at the end.
    private func delete(_ name: RecordID) {
        guard let row = content.removeValue(forKey: name) else { return }
        for (child, reference) in referrers(to: row, of: name.table) {
            switch reference.onDelete {
            case .cascade: delete(child)
            case .setNull, .setDefault:
                for (place, column) in schema.tables[child.table].columns.enumerated()
                where reference.columns.contains(column.name) { content[child]?[place] = .null }
            case .restrict, .noAction: break
            }
        }
    }

    private static func duplicate(in table: SyncedTable, columns: [String]) -> Violation {
        .conflict([ConflictReason(table: table.name, key: "", columns: columns, rule: .unique)])
    }

    private func checkUniques() throws {
        for (place, table) in schema.tables.enumerated() {
            for columns in table.uniques {
                let values = names(of: place).map { self.values(columns, of: content[$0], in: place) }
                let whole = values.filter { !$0.contains(.null) }
                guard Set(whole).count == whole.count else { throw Self.duplicate(in: table, columns: columns) }
            }
        }
    }

    private func checkReferences(_ changeSets: [PendingChangeSet]) throws {
        guard !schema.tables.allSatisfy({ broken(in: $0).isEmpty }) else { return }
        let references = BrokenReferences(schema: schema, changeSets: changeSets, wasDeleted: wasDeleted)
        throw try references.violation(broken)
    }

    private func broken(in table: SyncedTable) -> [BrokenReference] {
        let place = schema.places[table.name] ?? 0
        return table.references.flatMap { reference in
            names(of: place).compactMap { child -> BrokenReference? in
                let parent = values(reference.columns, of: content[child], in: place)
                let parentPlace = schema.places[reference.parent] ?? 0
                guard !parent.contains(.null), names(with: parent, in: reference.parentColumns, of: parentPlace).isEmpty
                else { return nil }
                return BrokenReference(
                    table: table.name, key: child.key, column: reference.columns[0], parent: reference.parent,
                    parentKey: Value.key(ofParts: parent),
                    isToKey: schema.tables[parentPlace].key == reference.parentColumns)
            }
        }
    }
}

// MARK: - Questions of a commit

extension ModelZone {
    package func records(_ question: RecordQuestion) throws -> RecordAnswer {
        var answer = RecordAnswer()
        switch question {
        case .contended(let changes):
            for (index, change) in changes { answer.contended[index] = try contention(of: change) }
        case .rows(let names): for name in names { answer.rows[name] = content[name] }
        case .children(let names, let max):
            let children = names.flatMap { name in content[name].map { referrers(to: $0, of: name.table) } ?? [] }
            answer.children = Array(children.map(\.name).prefix(max))
        case .holders(let columns, let place, let changeSet):
            for record in changeSet.records where record.table == place && record.operation != .delete {
                let values = values(columns, of: try row(record, of: changeSet), in: place)
                let others = names(with: values, in: columns, of: place).map(\.key).filter { $0 != record.key }
                answer.holders.formUnion(others)
            }
        case .keys: break
        case .values(let values): answer.values = values.map(\.value)
        }
        return answer
    }

    /// Returns what the author of a change does not know about its record; nil if the author knows everything.
    private func contention(of change: BasedChange) throws -> (exists: Bool, row: [Value]?)? {
        let row = content[change.name]
        if change.operation == .create { return row.map { (true, $0) } }
        guard let row else { return (false, nil) }
        let name = [Value.text(schema.tables[change.name.table].name), .text(change.name.key), .integer(change.base)]
        guard try !rows(ModelSQL.later, name).isEmpty else { return nil }
        return (true, change.operation == .delete ? nil : row)
    }

    package func ids(_ question: IDQuestion) throws -> IDAnswer {
        var answer = IDAnswer()
        switch question {
        case .next(let wanted):
            for (place, wish) in wanted {
                let stored = try rows(ModelSQL.next, [.text(schema.tables[place].name)]).first?.integer(0) ?? 1
                let ids = names(of: place).compactMap { Int64($0.key) }.filter { $0 <= TemporaryID.assignedMax }
                answer.next[place] = try idsInOwnPlace(from: max(wish.least, stored, (ids.max() ?? 0) + 1))
            }
        case .lent(let names):
            let number = try rows(ModelSQL.lend).first?.number(0) ?? 1
            for name in names {
                answer.lent[name] = schema.byName[name]?.keyKind == .integer ? IDLayout.wide.lent(number) : []
            }
        }
        return answer
    }

    /// Returns the server's own ids: all, as long as no device is lent any.
    private func idsInOwnPlace(from first: Int64) throws -> [ClosedRange<Int64>] {
        guard try rows(ModelSQL.lendings).isEmpty else { return IDLayout.wide.own(from: first).map { [$0] } ?? [] }
        return first <= TemporaryID.assignedMax ? [first...TemporaryID.assignedMax] : []
    }
}

private enum ModelSQL {
    static let later = BookStatement("SELECT 1 FROM {log} WHERE {here} AND tbl = $2 AND key = $3 AND revision > $4")
    static let next = BookStatement("SELECT next FROM {identity} WHERE {here} AND tbl = $2")
    static let lendings = BookStatement("SELECT number FROM main.tidemark_lent")
    static let lend = BookStatement(
        """
        INSERT INTO main.tidemark_lent VALUES (1, 1)
        ON CONFLICT (id) DO UPDATE SET number = number + 1
        RETURNING number
        """
    )
}

// MARK: - Rows of one table

extension ModelZone {
    /// A question that the model does not answer.
    struct BeyondModel: Error {}

    package func tableRows(_ question: TableQuestion) throws -> TableAnswer {
        switch question {
        case .page(let query): TableAnswer(try page(query))
        case .sums(let query): TableAnswer(try sums(query))
        }
    }

    private func page(_ query: RowQuery) throws -> RowPage {
        let place = schema.places[query.table.name] ?? 0
        let position = { (name: RecordID) in
            self.values(query.placeColumns.map(\.name), of: self.content[name], in: place)
        }
        var found = try names(of: place).filter { try selects(query.filter, $0) }
        if let keys = query.keys { found = found.filter { keys.contains($0.key) } }
        if let after = try query.after.map({ try ($0.values + $0.key).map(Value.init(json:)) }) {
            found = found.filter { Self.precedes(after, position($0), in: query) }
        }
        found.sort { Self.precedes(position($0), position($1), in: query) }
        let revisions = try revisions(of: found)
        let columns = (query.columns + query.furtherColumns).map(\.name)
        var collected = CollectRows(query)
        for name in found {
            let cells = values(columns, of: content[name], in: place)
                .map { String(decoding: $0.canonicalJSON, as: UTF8.self) }
            guard collected.take(key: name.key, revision: revisions[name] ?? 0, cells: cells) else { break }
        }
        return collected.page
    }

    private func sums(_ query: FingerprintQuery) throws -> [RowSum] {
        let place = schema.places[query.table.name] ?? 0
        let found = try names(of: place).filter { try selects(query.filter, $0) }
        var buffer: [UInt8] = []
        var sums: [RowSum] = []
        for (index, range) in query.ranges.enumerated() {
            for name in found {
                if let from = range.from, bound(name) < from { continue }
                if let to = range.to, bound(name) >= to { continue }
                let hash = schema.layouts[place].hash(content[name] ?? [], key: name.key, &buffer)
                sums.append(RowSum(range: index, key: name.key, rows: 1, fingerprint: hash))
            }
        }
        return query.rowsMax.map { Array(sums.prefix($0)) } ?? query.sums(ofRows: sums)
    }

    private func selects(_ filter: RowFilter?, _ name: RecordID) throws -> Bool {
        try filter.map { try holds($0, name) ?? false } ?? true
    }

    /// Whether a condition holds for a record; nil where SQL says NULL.
    private func holds(_ filter: RowFilter, _ name: RecordID) throws -> Bool? {
        let value = { (column: SyncedTable.Column) in
            self.values([column.name], of: self.content[name], in: name.table)[0]
        }
        switch filter {
        case .all(let parts):
            let results = try parts.map { try holds($0, name) }
            return results.contains(false) ? false : results.contains(nil) ? nil : true
        case .any(let parts):
            let results = try parts.map { try holds($0, name) }
            return results.contains(true) ? true : results.contains(nil) ? nil : false
        case .not(let part): return try holds(part, name).map { !$0 }
        case .isNull(let column): return value(column) == .null
        case .isOneOf(let column, let values):
            return try holds(.any(values.map { .compare(column, .equal, $0) }), name)
        case .isLike: throw BeyondModel()
        case .compare(let column, let comparison, let json):
            guard let order = Self.order(value(column), try Value(json: json)) else { return nil }
            return switch comparison {
            case .equal: order == 0
            case .unequal: order != 0
            case .greater: order > 0
            case .greaterOrEqual: order >= 0
            case .less: order < 0
            case .lessOrEqual: order <= 0
            }
        }
    }

    /// Compares numbers by value and texts by bytes, with -1, 0 or 1; nil for NULL.
    private static func order(_ one: Value, _ other: Value) -> Int? {
        switch (one, other) {
        case (.null, _), (_, .null): nil
        case (.integer(let one), .integer(let other)): one == other ? 0 : one < other ? -1 : 1
        case (.real(let one), .real(let other)): one == other ? 0 : one < other ? -1 : 1
        case (.text(let one), .text(let other)):
            one.utf8.elementsEqual(other.utf8) ? 0 : one.utf8.lexicographicallyPrecedes(other.utf8) ? -1 : 1
        default: nil
        }
    }

    /// Whether a place comes before another one in the order of a query, in which NULL is lowest.
    private static func precedes(_ one: [Value], _ other: [Value], in query: RowQuery) -> Bool {
        for (index, pair) in zip(one, other).enumerated() where pair.0 != pair.1 {
            let isLess = pair.0 == .null || pair.1 != .null && (order(pair.0, pair.1) ?? 0) < 0
            return isLess != (index < query.order.count ? query.order[index].isDescending : query.isKeyDescending)
        }
        return false
    }
}
