import GRDB
import TidemarkCore
import TidemarkServer
import TidemarkSQLite
import TidemarkStore

/// Permanent ids: given in the commit that creates the records.
extension PostgresTransaction {
    func recallIdentities(_ request: SyncRequest) throws {
        guard let device = request.device, let first = request.changeSets.first else { return }
        let wanted = try staged.wantedIdentities(request)
        guard !wanted.isEmpty else { return }
        let list = wanted.map { "[\(ChangeSetJSON.quote($0.table)),\($0.temporary)]" }
        let found = try pg.text(
            """
            SELECT json_agg(json_build_array(m.tbl, m.temporary, m.permanent))
            FROM jsonb_array_elements($3::jsonb) AS w JOIN tidemark.idmap AS m ON m.zone = $1
                AND m.device = $2 AND m.tbl = w ->> 0 AND m.temporary = (w ->> 1)::bigint
            """,
            [zoneName, device, "[\(list.joined(separator: ","))]"]
        )
        guard let found else { return }
        try db.cachedStatement(
            sql: """
                INSERT OR IGNORE INTO temp.tidemark_given
                SELECT \(StagedRequest.list("?1")), value ->> 0, value ->> 1, value ->> 2 FROM json_each(?2)
                """
        ).execute(arguments: [first.ord, found])
    }

    func begin(_ ord: Int, device: String?) throws -> Int64 {
        let revision = nextRevision()
        let tables = try staged.tablesWithTemporaryCreates(ord)
        for stored in tables.compactMap({ table($0.name) }) { try assign(stored, ord) }
        try staged.nameIdentities(.one(ord))
        if let device { for table in tables { try keepMap(table, ord, device) } }
        return revision
    }

    /// Gives ids to one table's new records.
    ///
    /// An id is never given twice, also when its record is long gone.
    private func assign(_ stored: PostgresTable, _ ord: Int) throws {
        let table = stored.table
        guard stored.sequence == nil else { return try assignFromSequence(stored, ord) }
        let first = try nextIdentity(stored)
        let count = try staged.creationCount(table, ord)
        try staged.give(Array(first..<(first + Int64(count))), to: table, in: .one(ord))
        try pg.query(
            """
            INSERT INTO tidemark.identity VALUES ($1, $2, $3::bigint)
            ON CONFLICT (zone, tbl) DO UPDATE SET next = excluded.next
            """,
            [zoneName, table.name, "\(first + Int64(count))"]
        )
    }

    /// Draws ids for one table's new records.
    private func assignFromSequence(_ stored: PostgresTable, _ ord: Int) throws {
        let count = try staged.creationCount(stored.table, ord)
        let name = stored.table.name
        var ids = Array(drawn[name, default: []].prefix(count))
        drawn[name]?.removeFirst(ids.count)
        if ids.count < count { ids += try draw(count - ids.count, from: stored) }
        try staged.give(ids, to: stored.table, in: .one(ord))
    }

    /// How far a sequence may lie behind the ids of the rows to be drawn past them.
    private static let sequenceLagMax: Int64 = 100_000

    /// Draws ids from a table's sequence.
    ///
    /// Programs may have inserted rows with ids of their own, which the sequence does not know. The
    /// ids drawn are beyond all of them; where a program uses ids far ahead, such as a range of its
    /// own, they are only such as no row has or had.
    func draw(_ count: Int, from stored: PostgresTable) throws -> [Int64] {
        let id = stored.column(stored.table.key[0], "t")
        var ids = [Int64]()
        var wanted = count
        while ids.count < count {
            let drawn = try pg.query(
                """
                WITH drawn AS MATERIALIZED (
                    SELECT nextval($3::regclass) AS id FROM generate_series(1, $4::int))
                SELECT d.id, n.next, EXISTS (
                    SELECT 1 FROM \(stored.name) AS t WHERE \(stored.inZone("t")) AND \(id) = d.id)
                    OR EXISTS (SELECT 1 FROM tidemark.log AS l
                        WHERE l.zone = $1 AND l.tbl = $2 AND l.key = d.id::text)
                FROM drawn AS d CROSS JOIN (SELECT \(next(stored)) AS next) AS n
                """,
                [zoneName, stored.table.name, stored.sequence, "\(wanted)"]
            ).map { (id: $0.integer(0) ?? 0, next: $0.integer(1) ?? 1, isTaken: $0.isTrue(2)) }
            guard let first = drawn.first else { break }
            let lag = first.next - first.id
            let isNear = lag <= Self.sequenceLagMax
            ids += drawn.filter { isNear ? $0.id >= $0.next : !$0.isTaken }.map(\.id)
            let passed = isNear ? max(0, Int(lag) - drawn.count) : min(wanted, 10_000)
            wanted = count - ids.count + passed
        }
        return Array(ids.prefix(count))
    }

    /// The next id of a table that has no sequence.
    func nextIdentity(_ stored: PostgresTable) throws -> Int64 {
        try pg.integer("SELECT \(next(stored))", [zoneName, stored.table.name]) ?? 1
    }

    /// The id after all that a zone's rows have, or had.
    private func next(_ stored: PostgresTable) -> String {
        let id = stored.column(stored.table.key[0], "t")
        return """
            greatest(
                (SELECT next FROM tidemark.identity WHERE zone = $1 AND tbl = $2),
                (SELECT max(\(id))::bigint + 1 FROM \(stored.name) AS t WHERE \(stored.inZone("t"))), 1)
            """
    }

    /// Keeps which ids a change set's new records were given.
    private func keepMap(_ table: SyncedTable, _ ord: Int, _ device: String) throws {
        let given = try String.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT json_array(CAST(old_key AS INTEGER), CAST(key AS INTEGER))
                    FROM temp.tidemark_staged WHERE ord = ? AND tbl = ? AND operation = 'create'
                    """
            ),
            arguments: [ord, table.name]
        ).joined(separator: ",")
        do {
            try pg.query(
                """
                INSERT INTO tidemark.idmap
                SELECT $1, $2, $3, (w ->> 0)::bigint, (w ->> 1)::bigint
                FROM jsonb_array_elements($4::jsonb) AS w
                """,
                [zoneName, device, table.name, "[\(given)]"]
            )
        } catch let failure as PostgresFailure where failure.state == "23505" {
            throw StagedRequest.usedTemporaryId(table, ord)
        }
    }
}
