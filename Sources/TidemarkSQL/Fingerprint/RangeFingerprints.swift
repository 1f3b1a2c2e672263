package import GRDB
package import TidemarkCore

/// Computes fingerprints of key ranges, to find the records that differ on two sides.
///
/// All ranges are in `temp.tidemark_range`, and one statement per table computes them. It finds integer keys by the
/// table's own index, and other keys by one scan in which each row looks up its range.
package struct RangeFingerprints {
    static let sql = """
        CREATE TEMP TABLE tidemark_range (
            ord INTEGER PRIMARY KEY, tbl TEXT NOT NULL, low, high
        );
        CREATE INDEX temp.tidemark_range_low ON tidemark_range (tbl, low);
        """

    private let db: Database
    private let schema: SyncSchema

    package init(_ db: Database, schema: SyncSchema) {
        self.db = db
        self.schema = schema
    }

    /// Counts and fingerprints the rows of this file in each range; ranges of one table must not overlap.
    package func measure(_ ranges: [KeyRange]) throws -> [KeyRange] {
        try load(ranges)
        var results = ranges
        for index in results.indices {
            results[index].rows = 0
            results[index].fingerprint = .none
        }
        for table in tables(of: ranges) {
            let rows = try Row.fetchAll(
                db.cachedStatement(
                    sql: """
                        SELECT ord, count(*) AS rows,
                            tidemark_fingerprint(\(SQLText.literal(table.name)), key, NULL, image) AS fingerprint
                        FROM (\(Self.rows(of: table)))
                        GROUP BY ord
                        """)
            )
            for row in rows {
                let index: Int = try row.value("ord")
                results[index].rows = try row.value("rows")
                results[index].fingerprint = try Fingerprint(hex: row.value("fingerprint")) ?? .none
            }
        }
        return results
    }

    /// Divides each range that has rows into up to `ways` parts with similar numbers of rows, and measures them.
    package func split(_ ranges: [KeyRange], ways: Int) throws -> [KeyRange] {
        try load(ranges)
        var bounds: [Int: [KeyRange.Bound]] = [:]
        for table in tables(of: ranges) {
            let rows = try Row.fetchAll(
                db.cachedStatement(
                    sql: """
                        SELECT ord, min(place) AS low
                        FROM (
                            SELECT ord, place, ntile(?) OVER (PARTITION BY ord ORDER BY place) AS part
                            FROM (\(Self.rows(of: table)))
                        )
                        GROUP BY ord, part
                        ORDER BY ord, low
                        """),
                arguments: [ways])
            for row in rows {
                try bounds[row.value("ord"), default: []].append(
                    table.keyKind == .integer ? .integer(row.value("low")) : .json(row.value("low")))
            }
        }
        let parts = ranges.enumerated().flatMap { index, range -> [KeyRange] in
            // The first part begins with the range, even if the range begins without a row.
            let inner = (bounds[index] ?? []).dropFirst()
            let lows = [range.from] + inner.map(Optional.some)
            let highs = inner.map(Optional.some) + [range.to]
            return zip(lows, highs).map { KeyRange(table: range.table, from: $0, to: $1) }
        }
        return try measure(parts)
    }

    /// Replaces the content of `temp.tidemark_range` with ranges, numbered from 0.
    package func load(_ ranges: [KeyRange]) throws {
        try db.cachedStatement(sql: "DELETE FROM temp.tidemark_range").execute()
        for (ord, range) in ranges.enumerated() {
            let isInteger = schema.byName[range.table]?.keyKind == .integer
            try db.cachedStatement(sql: "INSERT INTO temp.tidemark_range VALUES (?, ?, ?, ?)").execute(arguments: [
                ord, range.table, value(range.from) ?? (isInteger ? nil : "".databaseValue), value(range.to),
            ])
        }
    }

    /// Returns a query for rows in the ranges of `temp.tidemark_range`: `ord`, `place` (sort key), `key`, `image`.
    package static func rows(of table: SyncedTable) -> String {
        let name = SQLText.name(table.name)
        let literal = SQLText.literal(table.name)
        let key = RowJSON.key(table, alias: "table_row.")
        let image = RowJSON.image(table, prefix: "table_row.")
        if table.keyKind == .integer {
            let id = "table_row.\(SQLText.name(table.key[0]))"
            // Without its index SQLite reads the ranges in the order of `ord`, and sorts nothing.
            return """
                SELECT key_range.ord, \(id) AS place, \(key) AS key, \(image) AS image
                FROM temp.tidemark_range AS key_range NOT INDEXED
                CROSS JOIN main.\(name) AS table_row
                    ON \(id) >= coalesce(key_range.low, \(Int64.min + 1))
                        AND \(id) <= coalesce(key_range.high - 1, \(Int64.max))
                WHERE key_range.tbl = \(literal)
                """
        }
        return """
            SELECT key_range.ord, keyed_row.key AS place, keyed_row.key, keyed_row.image
            FROM (
                SELECT \(key) AS key, \(image) AS image, (
                    SELECT candidate.ord
                    FROM temp.tidemark_range AS candidate
                    WHERE candidate.tbl = \(literal) AND candidate.low <= \(key)
                    ORDER BY candidate.low DESC
                    LIMIT 1
                ) AS ord
                FROM main.\(name) AS table_row
            ) AS keyed_row
            JOIN temp.tidemark_range AS key_range ON key_range.ord = keyed_row.ord
            WHERE key_range.high IS NULL OR keyed_row.key < key_range.high
            """
    }

    private func tables(of ranges: [KeyRange]) -> [SyncedTable] {
        let names = Set(ranges.map(\.table))
        return schema.tables.filter { names.contains($0.name) }
    }

    private func value(_ bound: KeyRange.Bound?) -> DatabaseValue? {
        switch bound {
        case .integer(let key): key.databaseValue
        case .json(let key): key.databaseValue
        case nil: nil
        }
    }
}
