import GRDB
import TidemarkCore
import TidemarkSQLite

/// Divides what was captured into groups, of which each becomes a change set: transactions of the
/// app, united where they have to be.
struct TransactionGroups {
    let db: Database
    let schema: SyncSchema

    /// SQLite takes 500 queries in a compound; a table has two.
    private static let tablesMax = 200

    /// The earlier transactions with which one has to do, by their places.
    private struct Reach {
        /// The one that it has to be united with.
        let back: Int?
        /// The latest one, but for its neighbour, that touched one of the same records.
        let previous: Int?
    }

    /// Captured changes that become a change set.
    struct Group {
        let range: ClosedRange<Int64>
        /// Whether no known transaction is among them: other programs made all of them.
        let isOutside: Bool
    }

    /// The groups in a captured range, in runs: no two groups of a run have a record in common, so
    /// what is captured of a run says without their bounds what happened to each record.
    func runs(in range: ClosedRange<Int64>, boundaries: KnownTransactions) throws -> [[Group]] {
        let ends = boundaries.ends(in: range)
        let known = boundaries.known(among: ends)
        guard ends.count > 1 else { return [[Group(range: range, isOutside: known.isEmpty)]] }
        let reach = try reach(ends)
        var runs: [[Group]] = []
        var first = 0
        for segments in Self.unite(reach, count: ends.count) {
            let low = segments.lowerBound == 0 ? range.lowerBound : ends[segments.lowerBound - 1] + 1
            let group = Group(range: low...ends[segments.upperBound], isOutside: known.isDisjoint(with: ends[segments]))
            let previous = segments.compactMap { reach[$0]?.previous }.max()
            if let last = runs.indices.last, (previous ?? -1) < first {
                runs[last].append(group)
            } else {
                runs.append([group])
                first = segments.lowerBound
            }
        }
        return runs
    }

    /// The transactions of each group, by their places.
    private static func unite(_ reach: [Int: Reach], count: Int) -> [ClosedRange<Int>] {
        var groups: [ClosedRange<Int>] = []
        for index in 0..<count {
            var first = index
            // Joins every group from the one that holds the transaction that this one reaches.
            if let back = reach[index]?.back, let at = groups.lastIndex(where: { $0.lowerBound <= back }) {
                first = groups[at].lowerBound
                groups.removeLast(groups.count - at)
            }
            groups.append(first...index)
        }
        return groups
    }

    /// What each transaction, by the number of its last change, has to do with earlier ones.
    ///
    /// It is united with its neighbour when they share a record, and with the one where a record
    /// was created that it deletes.
    private func reach(_ ends: [Int64]) throws -> [Int: Reach] {
        let list = "[" + ends.map(String.init).joined(separator: ",") + "]"
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    WITH touch (segment, tbl, key, kind) AS MATERIALIZED (
                        SELECT * FROM (
                            SELECT sum(kind IS NULL) OVER (ORDER BY seq, kind IS NULL ROWS UNBOUNDED PRECEDING),
                                tbl, key, kind
                            FROM (\(touched) UNION ALL SELECT value, NULL, NULL, NULL FROM json_each(?))
                        ) WHERE kind IS NOT NULL
                    ), record (tbl, key, segment, made, gone, previous) AS (
                        SELECT tbl, key, segment, max(kind = 'insert'), max(kind = 'delete'),
                            lag(segment) OVER (PARTITION BY tbl, key ORDER BY segment)
                        FROM touch GROUP BY tbl, key, segment
                    )
                    SELECT segment, min(back) AS back, max(other) AS previous FROM (
                        SELECT segment, iif(previous = segment - 1, previous, NULL) AS back,
                            iif(previous < segment - 1, previous, NULL) AS other
                        FROM record WHERE previous IS NOT NULL
                        UNION ALL
                        SELECT g.segment, m.segment, NULL FROM record AS g JOIN record AS m USING (tbl, key)
                        WHERE g.gone AND m.made AND m.segment < g.segment
                    ) GROUP BY segment
                    """
            ),
            arguments: [list]
        )
        return try Dictionary(
            uniqueKeysWithValues: rows.map { row in
                try (row.value("segment") as Int, Reach(back: row.value("back"), previous: row.value("previous")))
            }
        )
    }

    /// The records that captured changes name, as a query.
    private var touched: String {
        let union = "\nUNION ALL "
        let tables = schema.tables.map { table -> String in
            let shadow = SQLText.name("tidemark_capture_\(table.name)")
            let old = RowJSON.key(table, prefix: "old_")
            let new = RowJSON.key(table, prefix: "new_")
            return """
                SELECT seq, \(SQLText.literal(table.name)) AS tbl,
                    CASE kind WHEN 'insert' THEN \(new) ELSE \(old) END AS key, kind FROM \(shadow)
                UNION ALL SELECT seq, \(SQLText.literal(table.name)), \(new), kind FROM \(shadow) WHERE kind = 'update'
                """
        }
        let compounds = stride(from: 0, to: tables.count, by: Self.tablesMax).map { start in
            tables[start..<min(start + Self.tablesMax, tables.count)].joined(separator: union)
        }
        guard compounds.count > 1 else { return compounds.joined() }
        return compounds.map { "SELECT * FROM (\($0))" }.joined(separator: union)
    }
}
