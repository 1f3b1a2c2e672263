import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// The ids of new records: no id is assigned twice, not even that of a deleted record.
extension PostgresTransaction {
    func ids(_ question: IDQuestion) throws -> IDAnswer {
        var answer = IDAnswer()
        switch question {
        case .next(let wanted): answer.next = try freeIDs(wanted)
        case .lent(let tables): answer.lent = try lentIDs(of: tables)
        }
        return answer
    }

    private func freeIDs(_ wanted: [Int: WantedIDs]) throws -> [Int: [ClosedRange<Int64>]] {
        let places = wanted.keys.sorted()
        let tables = try places.map { try table($0) }
        let wishes = places.compactMap { wanted[$0] }
        let spares = zip(places, wishes).map(spareIDs)
        let missing = zip(wishes, spares).map { max(0, $0.count - $1.count) }
        let results = try pg.run(zip(tables, missing).map(nextStatement))
        var next: [Int: [ClosedRange<Int64>]] = [:]
        for (index, place) in places.enumerated() {
            let table = tables[index]
            if table.sequence == nil {
                next[place] = Self.range(of: table, from: max(wishes[index].least, results[index][0].integer(0) ?? 1))
            } else {
                let drawn = try draw(missing[index], from: table, results[index])
                drawnIDs[place, default: []] += drawn
                next[place] = Self.ranges(of: spares[index] + drawn)
            }
        }
        return next
    }

    /// The statement that draws ids from a table's sequence, or reads the next one of a table without a sequence.
    private func nextStatement(of table: PostgresTable, drawing count: Int) -> PostgresStatement {
        guard table.sequence != nil else {
            return PostgresStatement("SELECT \(nextSQL(table))", [zone, table.table.name])
        }
        let id = table.column(table.table.key[0], "app_row")
        return PostgresStatement(
            """
            WITH drawn AS MATERIALIZED (
                SELECT nextval($3::regclass) AS id
                FROM generate_series(1, $4::int))
            SELECT drawn.id, bound.next,
                EXISTS (SELECT 1 FROM \(table.name) AS app_row
                    WHERE \(table.inZone("app_row")) AND \(id) = drawn.id)
                OR EXISTS (SELECT 1 FROM tidemark.log AS log_entry
                    WHERE log_entry.zone = $1 AND log_entry.tbl = $2 AND log_entry.key = drawn.id::text)
            FROM drawn
            CROSS JOIN (SELECT \(nextSQL(table)) AS next) AS bound
            """,
            [zone, table.table.name, table.sequence, "\(count)"])
    }

    private static func range(of table: PostgresTable, from first: Int64) -> [ClosedRange<Int64>] {
        guard let layout = IDLayout(table) else {
            return first <= TemporaryID.assignedMax ? [first...TemporaryID.assignedMax] : []
        }
        return layout.own(from: first).map { [$0] } ?? []
    }

    /// Returns drawn ids that a run which was undone has left for the next one.
    private func spareIDs(_ place: Int, _ wish: WantedIDs) -> [Int64] {
        let used = books.assigned[place] ?? []
        return Array((drawnIDs[place] ?? []).filter { $0 >= wish.least && !used.contains($0) }.prefix(wish.count))
    }

    /// The maximum lag of a sequence behind the rows' ids that the store closes by drawing numbers.
    private static let sequenceLagMax: Int64 = 100_000
    /// The maximum number of extra draws in a round if the sequence is far behind.
    private static let extraDrawsMax = 10_000

    /// Returns ids of a table's sequence: those of `rows` that are free, and as many more as are needed.
    ///
    /// Programs may have inserted rows with explicit ids, which the sequence does not know. Normally the store draws
    /// past all of them. If a program uses ids far ahead, such as its own range, the store skips only ids that a row
    /// has or had.
    private func draw(_ count: Int, from table: PostgresTable, _ rows: PostgresRows) throws -> [Int64] {
        var ids: [Int64] = []
        var rows = rows
        while ids.count < count {
            let numbers = rows.map { (id: $0.integer(0) ?? 0, next: $0.integer(1) ?? 1, isTaken: $0.isTrue(2)) }
            guard let first = numbers.first else { break }
            let lag = first.next - first.id
            let isNear = lag <= Self.sequenceLagMax
            ids += numbers.filter { isNear ? $0.id >= $0.next : !$0.isTaken }.map(\.id)
            guard ids.count < count else { break }
            let passed = isNear ? max(0, Int(lag) - numbers.count) : min(numbers.count, Self.extraDrawsMax)
            rows = try pg.run([nextStatement(of: table, drawing: count - ids.count + passed)])[0]
        }
        return ids
    }

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

    /// Lends ids above those of the table's sequence, so that other programs go on as before.
    private func lentIDs(of tables: [String]) throws -> [String: [LentIDs]] {
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
