import TidemarkCore
import TidemarkEngine

/// Fingerprints of the rows that a filter selects, in a transaction of any kind.
struct ReadFingerprints {
    let pg: PostgresConnection
    let zone: String
    let dialect: PostgresDialect

    /// Counts and fingerprints the rows, in each range or one by one.
    func sums(_ query: FingerprintQuery) throws -> [RowSum] {
        let list = query.ranges.enumerated().map { index, range in
            #"{"ord":\#(index),"low":\#(range.from.json),"high":\#(range.to.json)}"#
        }
        let condition = try RowSQL.condition(query.filter, on: query.table, after: [JSONText.array(list)], in: dialect)
        let table = dialect.table
        let source = "\(KeyRangeSQL.join(table)) \(FingerprintSQL.hash(table, PostgresDialect.alias))\(condition.sql)"
        let arguments = [zone] + condition.arguments
        guard let rowsMax = query.rowsMax else { return try byRange(source, arguments) }
        return try byRow(source, key: dialect.keyJSON, rowsMax: rowsMax, arguments)
    }

    private func byRange(_ source: String, _ arguments: [String]) throws -> [RowSum] {
        try pg.rows(
            """
            SELECT key_range.ord, count(*), \(FingerprintSQL.sum)
            FROM \(source)
            GROUP BY key_range.ord
            ORDER BY key_range.ord
            """,
            arguments
        ).map { row in
            RowSum(
                range: Int(row.integer(0) ?? 0), rows: Int(row.integer(1) ?? 0),
                fingerprint: row[2].flatMap(Fingerprint.init(hex:)) ?? .none)
        }
    }

    private func byRow(_ source: String, key: String, rowsMax: Int, _ arguments: [String]) throws -> [RowSum] {
        try pg.rows(
            """
            SELECT \(key), substr(digest.hex, 2, 32), key_range.ord
            FROM \(source)
            ORDER BY key_range.ord
            LIMIT \(rowsMax)
            """,
            arguments
        ).map { row in
            RowSum(
                range: Int(row.integer(2) ?? 0), key: row.text(0), rows: 1,
                fingerprint: row[1].flatMap(Fingerprint.init(hex:)) ?? .none)
        }
    }
}
