import GRDB
import TidemarkCore
import TidemarkEngine
import TidemarkSQL
import TidemarkStoreSupport

/// Assigns permanent ids, in the commit that creates the records.
extension PostgresTransaction {
    func recallIdentities(_ request: SyncRequest) throws {
        guard let device = request.device, let first = request.changeSets.first else { return }
        let wanted = try staged.wantedIdentities(request)
        guard !wanted.isEmpty else { return }
        let list = wanted.map { "[\(ChangeSetJSON.quote($0.table)),\($0.temporary)]" }
        let identities = try pg.text(
            """
            SELECT json_agg(json_build_array(id_pair.tbl, id_pair.temporary, id_pair.permanent))
            FROM jsonb_array_elements($3::jsonb) AS wanted
            JOIN tidemark.idmap AS id_pair ON id_pair.zone = $1
                AND id_pair.device = $2 AND id_pair.tbl = wanted ->> 0
                AND id_pair.temporary = (wanted ->> 1)::bigint
            """,
            [zoneName, device, "[\(list.joined(separator: ","))]"]
        )
        guard let identities else { return }
        try db.cachedStatement(
            sql: """
                INSERT OR IGNORE INTO temp.tidemark_given
                SELECT \(StagedRequest.list("?1")), value ->> 0, value ->> 1, value ->> 2 FROM json_each(?2)
                """
        ).execute(arguments: [first.ord, identities])
    }

    func begin(_ ord: Int, device: String?) throws -> Int64 {
        let revision = nextRevision()
        let tables = try staged.tablesWithTemporaryCreates(ord)
        for stored in tables.compactMap({ table($0.name) }) { try assign(stored, ord) }
        try staged.nameIdentities(.one(ord))
        if let device { for table in tables { try storeIdentities(table, ord: ord, device: device) } }
        return revision
    }

    /// Assigns ids to one table's new records.
    ///
    /// Ids are never reused, not even those of deleted records.
    private func assign(_ stored: PostgresTable, _ ord: Int) throws {
        let table = stored.table
        guard stored.sequence == nil else { return try assignFromSequence(stored, ord) }
        let count = try staged.creationCount(table, ord)
        let (ids, next) = try idsInOrder(count, of: stored, from: nextIdentity(stored))
        try staged.give(ids, to: table, in: .one(ord))
        try pg.query(
            """
            INSERT INTO tidemark.identity VALUES ($1, $2, $3::bigint)
            ON CONFLICT (zone, tbl) DO UPDATE SET next = excluded.next
            """,
            [zoneName, table.name, "\(next)"]
        )
    }

    /// Returns ids from `first` on that no staged record chooses, and the id after them.
    func idsInOrder(_ count: Int, of stored: PostgresTable, from first: Int64) throws -> (ids: [Int64], next: Int64) {
        let chosenIDs = try staged.chosenIDs(of: stored.table, from: first)
        var ids: [Int64] = []
        var next = first
        let layout = IDLayout(stored)
        while ids.count < count {
            next = layout?.own(from: next)?.lowerBound ?? next
            if !chosenIDs.contains(next) { ids.append(next) }
            next += 1
        }
        return (ids, next)
    }

    /// Assigns ids from the table's sequence to its new records.
    private func assignFromSequence(_ stored: PostgresTable, _ ord: Int) throws {
        let count = try staged.creationCount(stored.table, ord)
        let name = stored.table.name
        var ids = Array(spareIDsByTable[name, default: []].prefix(count))
        spareIDsByTable[name]?.removeFirst(ids.count)
        if ids.count < count { ids += try drawIDs(count - ids.count, from: stored) }
        try staged.give(ids, to: stored.table, in: .one(ord))
    }

    /// The maximum lag of a sequence behind the rows' ids that the store closes by drawing numbers.
    private static let sequenceLagMax: Int64 = 100_000

    /// Draws ids from a table's sequence.
    ///
    /// Programs may have inserted rows with explicit ids, which the sequence does not know. Normally the
    /// store draws past all of them. If a program uses ids far ahead, such as its own range, the store
    /// skips only ids that a row has or had.
    func drawIDs(_ count: Int, from stored: PostgresTable) throws -> [Int64] {
        let id = stored.column(stored.table.key[0], "app_row")
        let chosenIDs = try staged.chosenIDs(of: stored.table, from: 0)
        var ids = [Int64]()
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
            ids += numbers.filter { (isNear ? $0.id >= $0.next : !$0.isTaken) && !chosenIDs.contains($0.id) }.map(\.id)
            let passed = isNear ? max(0, Int(lag) - numbers.count) : min(wanted, Self.extraDrawsMax)
            wanted = count - ids.count + passed
        }
        return Array(ids.prefix(count))
    }

    /// The maximum number of extra draws in a round if the sequence is far behind.
    private static let extraDrawsMax = 10_000

    /// Reads the next id of a table without a sequence.
    func nextIdentity(_ stored: PostgresTable) throws -> Int64 {
        try pg.integer("SELECT \(nextSQL(stored))", [zoneName, stored.table.name]) ?? 1
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

    /// Stores the ids of a change set's new records.
    private func storeIdentities(_ table: SyncedTable, ord: Int, device: String) throws {
        let pairs = try String.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT json_array(CAST(old_key AS INTEGER), CAST(key AS INTEGER))
                    FROM temp.tidemark_staged
                    WHERE ord = ? AND tbl = ? AND operation = 'create' AND old_key IS NOT NULL
                    """
            ),
            arguments: [ord, table.name]
        ).joined(separator: ",")
        do {
            try pg.query(
                """
                INSERT INTO tidemark.idmap
                SELECT $1, $2, $3, (pair ->> 0)::bigint, (pair ->> 1)::bigint
                FROM jsonb_array_elements($4::jsonb) AS pair
                """,
                [zoneName, device, table.name, "[\(pairs)]"]
            )
        } catch let failure as PostgresFailure where failure.state == "23505" {
            throw StagedRequest.usedTemporaryId(table, ord)
        }
    }

    // MARK: Lending

    /// Lends ids above those of the table's sequence, so that other programs go on as before.
    func lend(_ tables: [String]) throws -> [String: [LentIDs]] {
        let stored = tables.compactMap { table($0) }
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
