import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// The ids of new records: no id is assigned twice, not even that of a deleted record.
extension PostgresTransaction {
    func nextIDs(of place: Int, from least: Int64, count: Int) throws -> [ClosedRange<Int64>] {
        let stored = try table(place)
        guard stored.sequence == nil else {
            // A run that was undone leaves its ids for the next one.
            let used = usedIDs[place] ?? []
            let spare = (drawnIDs[place] ?? []).filter { $0 >= least && !used.contains($0) }
            guard spare.count < count else { return Self.ranges(of: spare) }
            let drawn = try drawIDs(count - spare.count, from: stored)
            drawnIDs[place, default: []] += drawn
            return Self.ranges(of: spare + drawn)
        }
        let next = try pg.integer("SELECT \(nextSQL(stored))", [zoneName, stored.table.name]) ?? 1
        let first = max(least, next)
        guard let layout = IDLayout(stored) else {
            return first <= TemporaryID.assignedMax ? [first...TemporaryID.assignedMax] : []
        }
        return layout.own(from: first).map { [$0] } ?? []
    }

    /// The maximum lag of a sequence behind the rows' ids that the store closes by drawing numbers.
    private static let sequenceLagMax: Int64 = 100_000

    /// The maximum number of extra draws in a round if the sequence is far behind.
    private static let extraDrawsMax = 10_000

    /// Draws ids from a table's sequence.
    ///
    /// Programs may have inserted rows with explicit ids, which the sequence does not know. Normally the store draws
    /// past all of them. If a program uses ids far ahead, such as its own range, the store skips only ids that a row
    /// has or had.
    private func drawIDs(_ count: Int, from stored: PostgresTable) throws -> [Int64] {
        let id = stored.column(stored.table.key[0], "app_row")
        var ids: [Int64] = []
        var wanted = count
        while ids.count < count {
            let numbers = try pg.query(
                """
                WITH drawn AS MATERIALIZED (
                    SELECT nextval($3::regclass) AS id
                    FROM generate_series(1, $4::int))
                SELECT drawn.id, bound.next,
                    EXISTS (SELECT 1 FROM \(stored.name) AS app_row
                        WHERE \(stored.inZone("app_row")) AND \(id) = drawn.id)
                    OR EXISTS (SELECT 1 FROM tidemark.log AS log_entry
                        WHERE log_entry.zone = $1 AND log_entry.tbl = $2 AND log_entry.key = drawn.id::text)
                FROM drawn
                CROSS JOIN (SELECT \(nextSQL(stored)) AS next) AS bound
                """,
                [zoneName, stored.table.name, stored.sequence, "\(wanted)"]
            ).map { (id: $0.integer(0) ?? 0, next: $0.integer(1) ?? 1, isTaken: $0.isTrue(2)) }
            guard let first = numbers.first else { break }
            let lag = first.next - first.id
            let isNear = lag <= Self.sequenceLagMax
            ids += numbers.filter { isNear ? $0.id >= $0.next : !$0.isTaken }.map(\.id)
            let passed = isNear ? max(0, Int(lag) - numbers.count) : min(wanted, Self.extraDrawsMax)
            wanted = count - ids.count + passed
        }
        return ids
    }

    /// Returns ids as ranges, in their order.
    private static func ranges(of ids: [Int64]) -> [ClosedRange<Int64>] {
        var ranges: [ClosedRange<Int64>] = []
        for id in ids {
            if let last = ranges.last, last.upperBound + 1 == id {
                ranges[ranges.count - 1] = last.lowerBound...id
            } else {
                ranges.append(id...id)
            }
        }
        return ranges
    }

    /// The expression for the id after all ids that the zone's rows have or had.
    private func nextSQL(_ stored: PostgresTable) -> String {
        let id = stored.column(stored.table.key[0], "app_row")
        let isAssigned = "<= \(TemporaryID.assignedMax)"
        return """
            greatest(
                (SELECT next FROM tidemark.identity WHERE zone = $1 AND tbl = $2 AND next \(isAssigned)),
                (SELECT max(\(id))::bigint + 1
                FROM \(stored.name) AS app_row
                WHERE \(stored.inZone("app_row")) AND \(id) \(isAssigned)), 1)
            """
    }

    // MARK: Lending

    /// Lends ids above those of the table's sequence, so that other programs go on as before.
    func lend(_ tables: [String]) throws -> [String: [LentIDs]] {
        let stored = tables.compactMap { served.tables[$0] }
        let lastValues = stored.map { table in
            table.sequence.map { "pg_sequence_last_value(\(SQLText.literal($0))::regclass)" } ?? "NULL::bigint"
        }
        let numbers = (["nextval('tidemark.lent')"] + lastValues).joined(separator: ", ")
        let row = try pg.query("SELECT \(numbers)")[0]
        guard let number = row.integer(0) else { return [:] }
        var lent = Dictionary(uniqueKeysWithValues: stored.map { ($0.table.name, [LentIDs]()) })
        for (index, stored) in stored.enumerated() where stored.table.keyKind == .integer {
            guard let layout = IDLayout(stored) else { continue }
            lent[stored.table.name] = layout.lent(number, above: row.integer(index + 1) ?? 0)
        }
        return lent
    }
}

extension IDLayout {
    /// The layout of a table's ids; nil if its key has too few bits to lend any.
    init?(_ stored: PostgresTable) {
        switch stored.type(stored.table.key[0]) {
        case "bigint": self = .besideSequence
        case "integer": self = .narrow
        default: return nil
        }
    }
}
