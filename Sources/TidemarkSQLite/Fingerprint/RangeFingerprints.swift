package import GRDB
package import TidemarkCore

/// Fingerprints of ranges of keys, to find the records that differ on two sides.
///
/// All ranges lie in `temp.tidemark_range`, and one statement a table measures them: integer keys
/// through the table's own index, other keys by one scan in which each row looks up its range.
package struct RangeFingerprints {
    static let sql = """
        CREATE TEMP TABLE tidemark_range (
            ord INTEGER PRIMARY KEY, tbl TEXT NOT NULL, low, high
        );
        CREATE INDEX temp.tidemark_range_low ON tidemark_range (tbl, low);
        """

    private let db: Database
    private let schema: SyncSchema

    /// Ranges of the tables of `schema`, on a prepared connection.
    package init(_ db: Database, schema: SyncSchema) { (self.db, self.schema) = (db, schema) }

    /// The ranges with the number and the fingerprint of the rows that are here.
    ///
    /// Ranges of one table must not overlap.
    package func measured(_ ranges: [KeyRange]) throws -> [KeyRange] {
        try load(ranges)
        var measured = ranges
        for index in measured.indices {
            measured[index].rows = 0
            measured[index].fingerprint = .none
        }
        for table in tables(of: ranges) {
            let rows = try Row.fetchAll(
                db.cachedStatement(
                    sql: """
                        SELECT ord, count(*) AS rows,
                            tidemark_fingerprint(\(SQLText.literal(table.name)), key, NULL, image) AS fingerprint
                        FROM (\(Self.rows(of: table))) GROUP BY ord
                        """
                )
            )
            for row in rows {
                let index: Int = try row.value("ord")
                measured[index].rows = try row.value("rows")
                measured[index].fingerprint = try Fingerprint(hex: row.value("fingerprint")) ?? .none
            }
        }
        return measured
    }

    /// Divides each range into as many as `ways` of about as many rows each, and measures these.
    ///
    /// A range without rows stays whole.
    package func split(_ ranges: [KeyRange], ways: Int) throws -> [KeyRange] {
        try load(ranges)
        var bounds: [Int: [KeyRange.Bound]] = [:]
        for table in tables(of: ranges) {
            let rows = try Row.fetchAll(
                db.cachedStatement(
                    sql: """
                        SELECT ord, min(place) AS low FROM (
                            SELECT ord, place, ntile(?) OVER (PARTITION BY ord ORDER BY place) AS part
                            FROM (\(Self.rows(of: table)))
                        ) GROUP BY ord, part ORDER BY ord, low
                        """
                ),
                arguments: [ways]
            )
            for row in rows {
                try bounds[row.value("ord"), default: []].append(
                    table.keyKind == .integer ? .integer(row.value("low")) : .json(row.value("low"))
                )
            }
        }
        let parts = ranges.enumerated().flatMap { index, range -> [KeyRange] in
            // The first part begins where the range does, also where no row is.
            let inner = (bounds[index] ?? []).dropFirst()
            let lows = [range.from] + inner.map(Optional.some)
            let highs = inner.map(Optional.some) + [range.to]
            return zip(lows, highs).map { KeyRange(table: range.table, from: $0, to: $1) }
        }
        return try measured(parts)
    }

    /// Puts ranges into `temp.tidemark_range`, numbered from 0.
    package func load(_ ranges: [KeyRange]) throws {
        try db.cachedStatement(sql: "DELETE FROM temp.tidemark_range").execute()
        for (ord, range) in ranges.enumerated() {
            let isInteger = schema.byName[range.table]?.keyKind == .integer
            try db.cachedStatement(sql: "INSERT INTO temp.tidemark_range VALUES (?, ?, ?, ?)").execute(arguments: [
                ord, range.table, value(range.from) ?? (isInteger ? nil : "".databaseValue), value(range.to),
            ])
        }
    }

    /// The rows in the ranges of `temp.tidemark_range`, with columns `ord`, `place` by which they
    /// are ordered, `key` and `image`.
    package static func rows(of table: SyncedTable) -> String {
        let name = SQLText.name(table.name)
        let literal = SQLText.literal(table.name)
        let key = RowJSON.key(table, alias: "t.")
        let image = RowJSON.image(table, prefix: "t.")
        if table.keyKind == .integer {
            let id = "t.\(SQLText.name(table.key[0]))"
            // Without its index the list is read in the order of `ord`, so nothing is sorted.
            return """
                SELECT r.ord, \(id) AS place, \(key) AS key, \(image) AS image
                FROM temp.tidemark_range AS r NOT INDEXED CROSS JOIN main.\(name) AS t
                    ON \(id) >= coalesce(r.low, \(Int64.min + 1)) AND \(id) <= coalesce(r.high - 1, \(Int64.max))
                WHERE r.tbl = \(literal)
                """
        }
        return """
            SELECT r.ord, x.key AS place, x.key, x.image
            FROM (
                SELECT \(key) AS key, \(image) AS image, (
                    SELECT q.ord FROM temp.tidemark_range AS q
                    WHERE q.tbl = \(literal) AND q.low <= \(key) ORDER BY q.low DESC LIMIT 1) AS ord
                FROM main.\(name) AS t
            ) AS x JOIN temp.tidemark_range AS r ON r.ord = x.ord
            WHERE r.high IS NULL OR x.key < r.high
            """
    }

    // MARK: Private

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
