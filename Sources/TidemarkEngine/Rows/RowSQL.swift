package import TidemarkCore

/// Builds the statements that answer a ``TidemarkCore/RowQuery`` in one dialect.
///
/// **Keyset paging.** The order is that of the query's columns and then of the key, so it is total. The next page
/// begins after a position (v, k), not after a number of rows. So rows that other clients write meanwhile move no
/// untouched row into two pages or out of all. NULL comes first ascending and last descending. For one column `c`:
///
/// | | v is a value | v is NULL |
/// | --- | --- | --- |
/// | ascending | `c > v OR (c = v AND key > k)` | `c IS NOT NULL OR (c IS NULL AND key > k)` |
/// | descending | `c < v OR c IS NULL OR (c = v AND key < k)` | `c IS NULL AND key < k` |
///
/// An `OR` over NULL and values would cost a sort. So a position becomes up to two statements, one for each side of
/// NULL, which the store runs one after another until it has enough rows. Each is a range of an index over the
/// columns and the key, so a page costs the same wherever it begins.
package struct RowSQL<Dialect: RowDialect> {
    package struct Statement: Hashable, Sendable {
        package let sql: String
        /// The parameters, in the order of their placeholders.
        package let arguments: [String]
    }

    private let dialect: Dialect
    private let query: RowQuery
    private var arguments: [String] = []

    package init(_ query: RowQuery, in dialect: Dialect) {
        self.query = query
        self.dialect = dialect
    }

    /// The statements, in the order of their rows; each selects the columns of ``selection``.
    package func statements(limit: Int) throws -> [Statement] {
        if let keys = query.keys {
            var builder = self
            return [try builder.byKeys(keys)]
        }
        return try segments.map { segment in
            var builder = self
            return try builder.statement(segment, limit: limit)
        }
    }

    /// The statement that counts rows up to a bound.
    package static func count(_ table: SyncedTable, where filter: RowFilter?, max: Int, in dialect: Dialect) throws
        -> Statement
    {
        var builder = RowSQL(RowQuery(table, where: filter, limit: max), in: dialect)
        let condition = try builder.condition(.beginning)
        return Statement(
            sql: "SELECT count(*) FROM (SELECT 1 AS one FROM \(dialect.from)\(condition) LIMIT \(max + 1)) AS counted",
            arguments: builder.arguments)
    }

    /// A filter as the `WHERE` of a statement on `dialect.from` that has other parameters before the filter's.
    package static func condition(
        _ filter: RowFilter?, on table: SyncedTable, after arguments: [String], in dialect: Dialect
    ) throws -> Statement {
        var builder = RowSQL(RowQuery(table, where: filter, limit: 0), in: dialect)
        builder.arguments = arguments
        let condition = try builder.condition(.beginning)
        return Statement(sql: condition, arguments: builder.arguments)
    }

    /// A part of the order, on one side of NULL in the first column.
    private enum Segment {
        case beginning
        case afterPosition
        case isNull
        case isNotNull
    }

    private var segments: [Segment] {
        guard let first = query.order.first, dialect.mayBeNull(first.column) else {
            return [query.after == nil ? .beginning : .afterPosition]
        }
        guard let after = query.after else {
            guard dialect.readsNullApart else { return [.beginning] }
            return first.isDescending ? [.isNotNull, .isNull] : [.isNull, .isNotNull]
        }
        switch (after.values[0] == Self.null, first.isDescending) {
        case (true, false): return [.afterPosition, .isNotNull]
        case (false, true): return [.afterPosition, .isNull]
        case (true, true), (false, false): return [.afterPosition]
        }
    }

    private mutating func statement(_ segment: Segment, limit: Int) throws -> Statement {
        let condition = try condition(segment)
        let order =
            query.order.enumerated().map { index, part in
                term(part.column, isDescending: part.isDescending, isUniform: index == 0 && segment != .beginning)
            } + keyColumns.map { term($0, isDescending: query.isKeyDescending, isUniform: false) }
        return Statement(
            sql: dialect.statement(
                RowSelection(cells: selection, source: dialect.from + condition, order: order, limit: limit)),
            arguments: arguments)
    }

    private func term(_ column: SyncedTable.Column, isDescending: Bool, isUniform: Bool) -> String {
        dialect.operand(column) + dialect.direction(of: column, isDescending: isDescending, isUniform: isUniform)
    }

    private mutating func byKeys(_ keys: [String]) throws -> Statement {
        let from = try dialect.from(keys: keys, at: 0)
        arguments = [from.argument]
        let condition = try condition(.beginning)
        return Statement(
            sql: dialect.statement(RowSelection(cells: selection, source: from.sql + condition, order: [], limit: nil)),
            arguments: arguments)
    }

    /// The key, the revision, the query's columns, and the further columns of a row's place.
    private var selection: [String] {
        let cells = query.columns.map { dialect.json($0, charactersMax: query.charactersMax) }
        let further = query.furtherColumns.map { dialect.json($0, charactersMax: nil) }
        return [dialect.keyJSON, dialect.revision] + cells + further
    }

    private mutating func condition(_ segment: Segment) throws -> String {
        var parts = [dialect.scope].compactMap { $0 }
        if let filter = query.filter { parts.append(try text(filter)) }
        if let place = try place(segment) { parts.append(place) }
        return parts.isEmpty ? "" : "\nWHERE \(parts.joined(separator: " AND "))"
    }

    private mutating func place(_ segment: Segment) throws -> String? {
        switch segment {
        case .beginning: return nil
        case .isNull: return query.order.first.map { "\(dialect.operand($0.column)) IS NULL" }
        case .isNotNull: return query.order.first.map { "\(dialect.operand($0.column)) IS NOT NULL" }
        case .afterPosition:
            guard let after = query.after else { return nil }
            guard let first = query.order.first else { return try afterKey(after.key) }
            let column = dialect.operand(first.column)
            guard after.values[0] != Self.null else {
                return "\(column) IS NULL AND \(try afterRest(of: after, from: 1))"
            }
            let value = try bind(after.values[0], first.column)
            let sign = first.isDescending ? "<" : ">"
            // The first comparison is a range of the index, the second decides about the range's first value.
            let rest = try afterRest(of: after, from: 1)
            return "\(column) \(sign)= \(value) AND (\(column) \(sign) \(value) OR \(rest))"
        }
    }

    /// The condition that a row with equal columns before `index` comes after the position.
    private mutating func afterRest(of after: RowQuery.Position, from index: Int) throws -> String {
        guard index < query.order.count else { return try afterKey(after.key) }
        let part = query.order[index]
        let column = dialect.operand(part.column)
        guard after.values[index] != Self.null else {
            let rest = "\(column) IS NULL AND \(try afterRest(of: after, from: index + 1))"
            return part.isDescending ? "(\(rest))" : "(\(column) IS NOT NULL OR \(rest))"
        }
        let value = try bind(after.values[index], part.column)
        let rest = "\(column) = \(value) AND \(try afterRest(of: after, from: index + 1))"
        guard part.isDescending else { return "(\(column) > \(value) OR \(rest))" }
        let null = dialect.mayBeNull(part.column) ? " OR \(column) IS NULL" : ""
        return "(\(column) < \(value)\(null) OR \(rest))"
    }

    private mutating func afterKey(_ key: [String]) throws -> String {
        let columns = keyColumns.map { dialect.operand($0) }
        var values: [String] = []
        for (column, json) in zip(keyColumns, key) { values.append(try bind(json, column)) }
        let sign = query.isKeyDescending ? "<" : ">"
        guard columns.count > 1 else { return "\(columns[0]) \(sign) \(values[0])" }
        return "(\(columns.joined(separator: ", "))) \(sign) (\(values.joined(separator: ", ")))"
    }

    private mutating func text(_ filter: RowFilter) throws -> String {
        switch filter {
        case .all(let parts): return try group(parts, " AND ")
        case .any(let parts): return try group(parts, " OR ")
        case .not(let part): return "NOT (\(try text(part)))"
        case .isNull(let column): return "\(dialect.operand(column)) IS NULL"
        case .isLike(let column, let pattern):
            let condition = dialect.like(column, pattern, at: arguments.count)
            arguments.append(condition.argument)
            return condition.sql
        case .isOneOf(let column, let values):
            var list: [String] = []
            for value in values { list.append(try bind(value, column)) }
            return dialect.isOneOf(column, list)
        case .compare(let column, .equal, let value): return dialect.isOneOf(column, [try bind(value, column)])
        case .compare(let column, let comparison, let value):
            return "\(dialect.operand(column)) \(Self.signs[comparison] ?? "=") \(try bind(value, column))"
        }
    }

    private mutating func group(_ parts: [RowFilter], _ word: String) throws -> String {
        var texts: [String] = []
        for part in parts { texts.append(try text(part)) }
        return "(\(texts.joined(separator: word)))"
    }

    private mutating func bind(_ json: String, _ column: SyncedTable.Column) throws -> String {
        let value = try dialect.value(json, of: column, at: arguments.count)
        arguments.append(value.argument)
        return value.sql
    }

    private var keyColumns: [SyncedTable.Column] {
        query.table.key.compactMap { name in query.table.columns.first { $0.name == name } }
    }

    private static var null: String { "null" }

    private static var signs: [RowFilter.Comparison: String] {
        [.unequal: "<>", .greater: ">", .greaterOrEqual: ">=", .less: "<", .lessOrEqual: "<="]
    }
}

/// The parts of a question for rows in which SQLite's and PostgreSQL's SQL differ.
///
/// The listed table has the alias `app_row`. Values reach the statement as parameters only.
package protocol RowDialect {
    /// A value in canonical JSON to compare with ``operand(_:)``, as parameter `index` from 0; throws `invalidValue`.
    func value(_ json: String, of column: SyncedTable.Column, at index: Int) throws -> BoundSQL
    /// A column, compared and ordered by value, and text by bytes.
    func operand(_ column: SyncedTable.Column) -> String
    /// The condition that a column has one of the values, in SQL, so that an index of the column serves it.
    func isOneOf(_ column: SyncedTable.Column, _ values: [String]) -> String
    /// The condition that a column's text fits a pattern, in which `*` stands for any text.
    func like(_ column: SyncedTable.Column, _ pattern: String, at index: Int) -> BoundSQL
    /// Whether ``operand(_:)`` may be NULL.
    func mayBeNull(_ column: SyncedTable.Column) -> Bool
    /// Whether NULL in an order's first column needs its own statement: PostgreSQL's index serves one side, not both.
    var readsNullApart: Bool { get }
    /// The words after a column in `ORDER BY`, with NULL lowest; `isUniform`: all rows have NULL there, or none.
    func direction(of column: SyncedTable.Column, isDescending: Bool, isUniform: Bool) -> String
    /// A column's value as canonical JSON, as a cut value if it has more characters than the maximum.
    func json(_ column: SyncedTable.Column, charactersMax: Int?) -> String
    /// The record's key as canonical JSON.
    var keyJSON: String { get }
    /// The revision that last changed the record.
    var revision: String { get }
    /// The table with its alias, and what else `FROM` needs.
    var from: String { get }
    /// A condition that every row fulfils, such as that of the zone.
    var scope: String? { get }
    /// `FROM` for the records that have one of the keys, in any spelling of a key's canonical JSON.
    func from(keys: [String], at index: Int) throws -> BoundSQL
    func statement(_ selection: RowSelection) -> String
}

/// SQL with one parameter, and the parameter's value.
package struct BoundSQL: Hashable, Sendable {
    package let sql: String
    package let argument: String

    package init(_ sql: String, _ argument: String) {
        self.sql = sql
        self.argument = argument
    }
}

/// The parts of a statement that reads rows.
package struct RowSelection: Hashable, Sendable {
    package let cells: [String]
    /// `FROM` and its conditions.
    package let source: String
    /// The terms of the order; empty for records by their keys, which come in the order of the keys.
    package let order: [String]
    /// The most rows; nil for all.
    package let limit: Int?
}

/// Collects the rows of a page within its bounds, whatever the store.
package struct CollectRows {
    private let query: RowQuery
    /// Where a row's cells have the values of its place.
    private let places: [Int]
    private var bytes = 0
    package private(set) var page = RowPage(rows: [], hasMore: false)

    package init(_ query: RowQuery) {
        self.query = query
        let further = query.furtherColumns
        places = query.placeColumns.map { column in
            further.firstIndex(of: column).map { query.columns.count + $0 } ?? query.columns.firstIndex(of: column) ?? 0
        }
    }

    /// Notes that the store has left out rows beyond the page's bytes.
    package mutating func endEarly() { page.hasMore = true }

    /// Adds a row with the values that ``RowSQL`` selects, and returns whether the page has room for another one.
    package mutating func take(key: String, revision: Int64, cells: [String]) -> Bool {
        let row = RowText(
            key: key, cells: cells.count == query.columns.count ? cells : Array(cells.prefix(query.columns.count)),
            revision: revision,
            position: RowQuery.Position(
                values: places.prefix(query.order.count).map { cells[$0] },
                key: places.dropFirst(query.order.count).map { cells[$0] }))
        bytes += row.byteCount
        let isFull = query.keys == nil && page.rows.count == query.limit
        guard !isFull, bytes <= query.bytesMax || page.rows.isEmpty else {
            page.hasMore = true
            return false
        }
        page.rows.append(row)
        return true
    }
}
