import GRDB
import TidemarkCore
import TidemarkSQL

/// Freezes change sets in batches, with a constant number of queries for each batch.
extension FreezeChangeSets {
    /// Change sets to freeze at once.
    struct Batch {
        var sets: ArraySlice<Waiting>
        var seqs: StatementArguments { [sets.first?.seq, sets.last?.seq] }
    }

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
            room -= size + Self.envelopeBytes
            if room <= 0 { return Batch(sets: sets.prefix { $0.seq <= seq }) }
        }
        return Batch(sets: sets)
    }

    /// Freezes change sets and removes those without anything to send.
    func freeze(_ batch: Batch) throws -> [Waiting] {
        for set in batch.sets { try UnservedValues(db: db, schema: schema).settle(set.seq) }
        if planted(PlantedBug.movesBaseWhenSending) { try PendingChanges(db: db, schema: schema).refreshBase() }
        let unknown = schema.difference.unknownTables
        let texts = try texts(batch, unknown.isEmpty ? schema : SyncSchema(tables: schema.tables + unknown))
        for set in batch.sets where texts[set.seq] == nil { try removeEmpty(set) }
        let after = try after(batch)
        return try batch.sets.compactMap { set in
            try texts[set.seq].map { try store($0, Self.envelope(set, after: after), of: set) }
        }
    }

    /// Returns the names of the tables of the change sets' records; throws `serverBehind` if the schema lacks one.
    private func touchedTables(_ batch: Batch, _ schema: SyncSchema) throws -> Set<String> {
        let first = try Row.fetchAll(
            db,
            cached: """
                SELECT tbl, min(seq) FROM tidemark_outbox WHERE seq BETWEEN ? AND ?
                GROUP BY tbl ORDER BY 2, 1
                """, arguments: batch.seqs)
        if let row = try first.first(where: { try schema.byName[$0.value(0)] == nil }) {
            let missing = try row.value(0) as String
            let seq = try row.value(1) as Int64
            throw TidemarkError(
                .serverBehind, "The zone has no table \(missing) any more, or not yet.",
                fix: "Retry the change when it has, or drop it: `tidemark device resolve`.",
                place: .init(id: batch.sets.first { $0.seq == seq }?.id, table: missing))
        }
        return try Set(first.map { try $0.value(0) as String })
    }

    /// Returns the content of each change set; a change set without records has none.
    private func texts(_ batch: Batch, _ schema: SyncSchema) throws -> [Int64: ChangeSetText] {
        var texts: [Int64: ChangeSetText] = [:]
        let touched = try touchedTables(batch, schema)
        for (place, table) in schema.tables.enumerated() where touched.contains(table.name) {
            let sql = OutboxRecords(schema: self.schema).sql(table)
            let bounds = [batch.sets.first, batch.sets.last].compactMap { $0.map { Value.integer($0.seq) } }
            try RowValues.read(sql, bounds, in: db) { values in
                guard case .integer(let seq) = values[0], let key = values[1].text,
                    let operation = values[2].text.flatMap(TidemarkCore.Operation.init)
                else { throw TidemarkError.unreadable("The outbox") }
                let members = values[3].text
                // A creation without its values would get the server's defaults.
                guard members != nil || values[3] == .null else { throw TidemarkError.unreadable("The outbox") }
                texts[seq, default: ChangeSetText(schema)].add(
                    RecordID(table: place, key: key), operation, members: members)
            }
        }
        return texts
    }

    private func store(_ text: ChangeSetText, _ envelope: [String], of set: Waiting) throws -> Waiting {
        var wire = Wire()
        var number = 0
        try text.render(envelope) { piece in
            if number == 0 { wire.beginning = piece } else { wire.overflow += piece.utf8.count }
            try WireText.store(number, piece, of: set.seq, in: db)
            number += 1
        }
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
