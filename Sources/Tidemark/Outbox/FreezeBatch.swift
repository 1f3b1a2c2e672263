import GRDB
import TidemarkCore
import TidemarkSQL

/// Freezes short change sets in batches, with a constant number of statements for each batch.
///
/// It renders and stores a long change set in pieces.
extension FreezeChangeSets {
    /// Change sets to freeze at once: many short ones, or one long one.
    struct Batch {
        var sets: ArraySlice<Waiting>
        var isLong = false
        var seqs: StatementArguments { [sets.first?.seq, sets.last?.seq] }
    }

    /// The size from which a change set is long, in characters of keys and values.
    private static let longMin = TextPieces.bytesTarget / 4
    /// The largest size of a batch, in characters of keys and values.
    private static let batchMax = 1 << 20
    /// The approximate size of a change set's other members, in bytes.
    private static let envelopeBytes = 128

    /// Returns the next batch: the first change sets, at least one, up to a size.
    func next(_ sets: ArraySlice<Waiting>, bytes: Int) throws -> Batch {
        let sizes = try Row.fetchCursor(
            db.cachedStatement(
                sql: """
                    SELECT seq, sum(length(key) + coalesce(length(attributes), 0)), max(length(attributes))
                    FROM tidemark_outbox WHERE seq BETWEEN ? AND ? GROUP BY seq
                    """), arguments: Batch(sets: sets).seqs)
        var room = min(bytes, Self.batchMax)
        while let row = try sizes.next() {
            let seq = try row.value(0) as Int64
            let size = try row.value(1) as Int
            try refuseLargeValues(of: seq, among: sets, longest: row.value(2) ?? 0)
            try refuseLargeSet(seq, among: sets, size: size)
            if size >= Self.longMin {
                let before = sets.prefix { $0.seq < seq }
                return before.isEmpty ? Batch(sets: sets.prefix(1), isLong: true) : Batch(sets: before)
            }
            room -= size + Self.envelopeBytes
            if room <= 0 { return Batch(sets: sets.prefix { $0.seq <= seq }) }
        }
        return Batch(sets: sets)
    }

    /// Freezes change sets and removes those without anything to send.
    func freeze(_ batch: Batch) throws -> [Waiting] {
        for set in batch.sets { try UnservedValues(db: db, schema: schema).settle(set.seq) }
        if planted(PlantedBug.movesBaseWhenSending) { try PendingChanges(db: db, schema: schema).refreshBase() }
        let tables = try touchedTables(batch)
        return batch.isLong
            ? try batch.sets.compactMap { try freezeInPieces($0, tables) } : try freezeTogether(batch, tables)
    }

    /// Returns the tables of the change sets' records, parents first.
    private func touchedTables(_ batch: Batch) throws -> [SyncedTable] {
        let first = try Row.fetchAll(
            db,
            cached: """
                SELECT tbl, min(seq) FROM tidemark_outbox WHERE seq BETWEEN ? AND ?
                GROUP BY tbl ORDER BY 2, 1
                """, arguments: batch.seqs)
        let tables = schema.tables + schema.difference.unknownTables
        let touched = try Set(first.map { try $0.value(0) as String })
        let names = Set(tables.map(\.name))
        if let row = try first.first(where: { try !names.contains($0.value(0)) }) {
            let missing = try row.value(0) as String
            let seq = try row.value(1) as Int64
            throw TidemarkError(
                .serverBehind, "The zone has no table \(missing) any more, or not yet.",
                fix: "Retry the change when it has, or drop it: `tidemark device resolve`.",
                place: .init(id: batch.sets.first { $0.seq == seq }?.id, table: missing))
        }
        return tables.filter { touched.contains($0.name) }
    }

    private func freezeTogether(_ batch: Batch, _ tables: [SyncedTable]) throws -> [Waiting] {
        var parts: [Int: [ChangeSetJSON.Part]] = [:]
        let sets = "(SELECT seq AS ord FROM tidemark_changeset WHERE seq BETWEEN ? AND ?) AS p"
        for table in tables {
            // The alias `p` belongs to the statement of `ChangeSetJSON.parts`.
            let sql = OutboxRecords(schema: schema).sql(table, seq: "p.ord")
            for (seq, part) in try ChangeSetJSON.parts(table, sql: sql, of: sets, arguments: batch.seqs, in: db) {
                parts[seq, default: []].append(part)
            }
        }
        for set in batch.sets where parts[Int(set.seq)] == nil { try removeEmpty(set) }
        let after = try after(batch)
        return try batch.sets.compactMap { set in
            guard let parts = parts[Int(set.seq)] else { return nil }
            var frozen = set
            let text = ChangeSetJSON.text(Self.envelope(set, after: after), parts)
            frozen.wire = Wire(beginning: text)
            try WireText.store(0, text, of: set.seq, in: db)
            return frozen
        }
    }

    private func freezeInPieces(_ set: Waiting, _ tables: [SyncedTable]) throws -> Waiting? {
        let sources = tables.map { table in
            ChangeSetJSON.Source(
                table: table, sql: OutboxRecords(schema: schema).sql(table, seq: "?"), arguments: [set.seq])
        }
        var wire = Wire()
        let envelope = Self.envelope(set, after: try after(Batch(sets: [set])))
        let count = try ChangeSetJSON.render(envelope: envelope, sources, in: db) { number, piece in
            guard number > 0 else { return wire.beginning = piece }
            wire.overflow += piece.utf8.count
            try WireText.store(number, piece, of: set.seq, in: db)
        }
        guard count > 0 else {
            try removeEmpty(set)
            return nil
        }
        try WireText.store(0, wire.beginning, of: set.seq, in: db)
        var frozen = set
        frozen.wire = wire
        return frozen
    }

    /// Returns the dependencies of change sets as JSON, by sequence number.
    private func after(_ batch: Batch) throws -> [Int64: String] {
        let rows = try Row.fetchAll(
            db,
            cached: """
                SELECT seq, json_group_array(id)
                FROM (SELECT seq, id FROM tidemark_after WHERE seq BETWEEN ? AND ? ORDER BY seq, id)
                GROUP BY seq
                """, arguments: batch.seqs)
        return try Dictionary(
            rows.map { try ($0.value(0) as Int64, $0.value(1) as String) }, uniquingKeysWith: { first, _ in first })
    }

    private static func envelope(_ set: Waiting, after: [Int64: String]) -> [String] {
        let after = after[set.seq].map { [#""after":\#($0)"#] } ?? []
        return [#""id":"\#(set.id)""#] + after + [#""time":\#(set.time)"#]
    }

    /// Removes a change set that changed only columns that the zone lacks; the rows keep those values.
    private func removeEmpty(_ set: Waiting) throws {
        try db.execute(
            sql: """
                INSERT OR IGNORE INTO tidemark_after (seq, id)
                SELECT dependent.seq, predecessor.id
                FROM tidemark_after AS dependent, tidemark_after AS predecessor
                WHERE dependent.id = ?1 AND predecessor.seq = ?2
                """, arguments: [set.id, set.seq])
        try db.execute(sql: "DELETE FROM tidemark_after WHERE id = ?", arguments: [set.id])
        try Outbox.remove(set.id, in: db)
        try Outbox.deleteUnusedBases(in: db)
    }
}
