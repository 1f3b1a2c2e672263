import GRDB
import TidemarkCore
import TidemarkSQL

/// Divides captured changes into groups; each becomes a change set.
///
/// A group is one transaction of the app, or several that must stay together.
struct TransactionGroups {
    let db: Database
    let schema: SyncSchema
    /// SQLite takes 500 queries in a compound; a table has two.
    private static let tablesMax = 200

    /// The earlier transactions that are related to one, by position.
    private struct Reach {
        let back: Int?
        /// The latest non-adjacent transaction that touched one of the same records.
        let previous: Int?
    }

    /// A range of captured changes that becomes a change set.
    struct Group {
        let range: ClosedRange<Int64>
        /// Whether other programs wrote all of them.
        let isOutside: Bool
    }

    /// Returns the groups in runs: no two groups of a run share a record, so the run can be reduced at once.
    func runs(in range: ClosedRange<Int64>, boundaries: KnownTransactions) throws -> [[Group]] {
        let ends = boundaries.ends(in: range)
        let knownEnds = boundaries.knownEnds(among: ends)
        guard ends.count > 1 else { return [[Group(range: range, isOutside: knownEnds.isEmpty)]] }
        let reach = try reach(ends)
        var runs: [[Group]] = []
        var first = 0
        for segments in Self.unite(reach, count: ends.count) {
            let low = segments.lowerBound == 0 ? range.lowerBound : ends[segments.lowerBound - 1] + 1
            let group = Group(
                range: low...ends[segments.upperBound], isOutside: knownEnds.isDisjoint(with: ends[segments]))
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

    /// Returns the transactions of each group, by position.
    private static func unite(_ reach: [Int: Reach], count: Int) -> [ClosedRange<Int>] {
        var groups: [ClosedRange<Int>] = []
        for index in 0..<count {
            var first = index
            // Join all groups since the one that contains the related transaction.
            if let back = reach[index]?.back, let at = groups.lastIndex(where: { $0.lowerBound <= back }) {
                first = groups[at].lowerBound
                groups.removeLast(groups.count - at)
            }
            groups.append(first...index)
        }
        return groups
    }

    /// Relates a transaction to the previous one if they share a record, and to the creator of one that it deletes.
    private func reach(_ ends: [Int64]) throws -> [Int: Reach] {
        let list = "[" + ends.map(String.init).joined(separator: ",") + "]"
        let rows = try Row.fetchAll(
            db,
            cached: """
                WITH touch (segment, tbl, key, kind) AS MATERIALIZED (
                    SELECT * FROM (
                        SELECT sum(kind IS NULL) OVER (ORDER BY seq, kind IS NULL ROWS UNBOUNDED PRECEDING),
                            tbl, key, kind
                        FROM (\(touched) UNION ALL SELECT value, NULL, NULL, NULL FROM json_each(?))
                    ) WHERE kind IS NOT NULL
                ), record (tbl, key, segment, is_created, is_deleted, previous) AS (
                    SELECT tbl, key, segment, max(kind = 'insert'), max(kind = 'delete'),
                        lag(segment) OVER (PARTITION BY tbl, key ORDER BY segment)
                    FROM touch GROUP BY tbl, key, segment
                )
                SELECT segment, min(back) AS back, max(other) AS previous FROM (
                    SELECT segment, iif(previous = segment - 1, previous, NULL) AS back,
                        iif(previous < segment - 1, previous, NULL) AS other
                    FROM record WHERE previous IS NOT NULL
                    UNION ALL
                    SELECT deletion.segment, creation.segment, NULL
                    FROM record AS deletion
                    JOIN record AS creation USING (tbl, key)
                    WHERE deletion.is_deleted AND creation.is_created AND creation.segment < deletion.segment
                ) GROUP BY segment
                """, arguments: [list])
        return try Dictionary(
            uniqueKeysWithValues: rows.map { row in
                try (row.value("segment") as Int, Reach(back: row.value("back"), previous: row.value("previous")))
            })
    }

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
