import GRDB
import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// Fingerprints of the rows that a filter selects.
extension FileRows {
    func fingerprints(_ query: FingerprintQuery) throws -> [RowSum] {
        try bounded(RowQuery(query.table, where: query.filter, limit: query.rowsMax ?? 0)) {
            guard query.table.keyKind == .integer else { return try byKeyText(query) }
            return try query.rowsMax == nil ? byRange(query) : rows(query)
        }
    }

    /// Sums up each range, which the table's own index finds.
    private func byRange(_ query: FingerprintQuery) throws -> [RowSum] {
        let source = try source(query)
        let name = SQLText.literal(query.table.name)
        let rows = try Row.fetchCursor(
            db,
            sql: """
                SELECT key_range.ord, count(*), tidemark_fingerprint(\(name), \(Self.key(query)), NULL, \(image(query)))
                FROM \(source.sql)
                GROUP BY key_range.ord
                ORDER BY key_range.ord
                """,
            arguments: StatementArguments(source.arguments))
        var sums: [RowSum] = []
        while let row = try rows.next() {
            let fingerprint = Fingerprint(hex: try row.value(2)) ?? .none
            sums.append(RowSum(range: try row.value(0), rows: try row.value(1), fingerprint: fingerprint))
        }
        return sums
    }

    private func rows(_ query: FingerprintQuery) throws -> [RowSum] {
        let source = try source(query)
        let rows = try Row.fetchCursor(
            db,
            sql: """
                SELECT \(Self.key(query)), \(hash(query)), key_range.ord
                FROM \(source.sql)
                ORDER BY key_range.ord
                LIMIT \(query.rowsMax ?? -1)
                """,
            arguments: StatementArguments(source.arguments))
        var sums: [RowSum] = []
        while let row = try rows.next() { sums.append(try sum(row, in: row.value(2))) }
        return sums
    }

    /// The rows `app_row` in the ranges `key_range`, as a `FROM` with its parameters.
    ///
    /// With several ranges, no index of the filter's columns may be used: SQLite would read all rows of the filter once
    /// for each range. The table's own order reads each row of a range once.
    private func source(_ query: FingerprintQuery) throws -> (sql: String, arguments: [String]) {
        let dialect = FileDialect(table: query.table)
        let id = FileDialect.alias + SQLText.name(query.table.key[0])
        let list = query.ranges.map { range in JSONText.array([range.from.json, range.to.json]) }
        let condition = try RowSQL.condition(query.filter, on: query.table, after: [JSONText.array(list)], in: dialect)
        let table = query.ranges.count > 1 ? "\(dialect.from) NOT INDEXED" : dialect.from
        return (
            sql: """
            (SELECT key AS ord, value ->> 0 AS low, value ->> 1 AS high FROM json_each(?1)) AS key_range
            CROSS JOIN \(table)
                ON \(id) >= coalesce(key_range.low, \(Int64.min + 1))
                    AND \(id) <= coalesce(key_range.high - 1, \(Int64.max))
            \(condition.sql)
            """, arguments: condition.arguments
        )
    }

    /// Reads the rows between the first and the last bound once, and looks up the range of each.
    private func byKeyText(_ query: FingerprintQuery) throws -> [RowSum] {
        let dialect = FileDialect(table: query.table)
        let bounds = [Self.text(query.ranges.first?.from) ?? "", Self.text(query.ranges.last?.to) ?? Self.afterAllKeys]
        let condition = try RowSQL.condition(query.filter, on: query.table, after: bounds, in: dialect)
        let rows = try Row.fetchCursor(
            db,
            sql: """
                SELECT key, hash
                FROM (SELECT \(Self.key(query)) AS key, \(hash(query)) AS hash FROM \(dialect.from)\(condition.sql))
                WHERE key >= ?1 AND key < ?2
                ORDER BY key
                """,
            arguments: StatementArguments(condition.arguments))
        var sums: [RowSum] = []
        var index = 0
        while let row = try rows.next(), sums.count < query.rowsMax ?? .max {
            let key = KeyRange.Bound.json(try row.value(0))
            while index < query.ranges.count, let end = query.ranges[index].to, end <= key { index += 1 }
            guard index < query.ranges.count else { break }
            if let start = query.ranges[index].from, key < start { continue }
            sums.append(try sum(row, in: index))
        }
        return query.rowsMax == nil ? query.sums(ofRows: sums) : sums
    }

    /// A text after every key: canonical JSON begins with a lower character.
    private static let afterAllKeys = "~"

    private static func text(_ bound: KeyRange.Bound?) -> String? {
        guard case .json(let key) = bound else { return nil }
        return key
    }

    private func sum(_ row: Row, in range: Int) throws -> RowSum {
        let fingerprint = Fingerprint(hex: try row.value(1)) ?? .none
        return RowSum(range: range, key: try row.value(0), rows: 1, fingerprint: fingerprint)
    }

    private static func key(_ query: FingerprintQuery) -> String { RowJSON.key(query.table, alias: FileDialect.alias) }

    private func image(_ query: FingerprintQuery) -> String { RowJSON.image(query.table, prefix: FileDialect.alias) }

    /// A row's number: the first bytes of the SHA-256 of its table, key and values.
    private func hash(_ query: FingerprintQuery) -> String {
        let start = SQLText.literal(JSONText.quote(query.table.name) + "\t")
        return "tidemark_hash(\(start) || \(Self.key(query)) || char(9) || \(image(query)))"
    }
}
