import GRDB
import TidemarkCore
import TidemarkServer
import TidemarkSQLite
import TidemarkStore

/// Permanent ids: given in the commit that creates the records.
extension PostgresTransaction {
    func recallIdentities(_ request: SyncRequest) throws {
        guard let device = request.device else { return }
        var wanted = try staged.wantedIdentities(request)
        // Of those that the request creates, the map says only whether they were used before, which
        // it says when they are written into it, too.
        if plan != nil, !wanted.isEmpty {
            let created = Set(try createdIdentities(request))
            wanted.removeAll { created.contains(.init(table: $0.table, key: "\($0.temporary)")) }
        }
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
                INSERT OR IGNORE INTO temp.tidemark_assigned
                SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?)
                """
        ).execute(arguments: [found])
    }

    private func createdIdentities(_ request: SyncRequest) throws -> [StagedRequest.RecordName] {
        try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT tbl, key FROM temp.tidemark_staged
                    WHERE ord BETWEEN ? AND ? AND operation = 'create' AND key LIKE '-%'
                    """
            ),
            arguments: [request.changeSets.first?.ord, request.changeSets.last?.ord]
        ).map { .init(table: $0["tbl"], key: $0["key"]) }
    }

    func begin(_ ord: Int, device: String?) throws -> Int64 {
        let revision = nextRevision()
        for table in try staged.tablesWithTemporaryCreates(ord) {
            guard let stored = self.table(table.name) else { continue }
            if let plan {
                try planIdentities(stored, ord, device, in: plan)
            } else {
                try assign(stored, ord, device)
            }
        }
        try staged.nameIdentities(ord)
        return revision
    }

    /// Gives ids to one table's new records.
    ///
    /// An id is never given twice, also when its record is long gone.
    private func assign(_ stored: PostgresTable, _ ord: Int, _ device: String?) throws {
        let table = stored.table
        guard stored.sequence == nil else {
            return try keepMap(table, ord, device, from: assignFromSequence(stored, ord))
        }
        let first = try nextIdentity(stored)
        let count = try staged.assign(table, ord, from: first)
        try pg.query(
            """
            INSERT INTO tidemark.identity VALUES ($1, $2, $3::bigint)
            ON CONFLICT (zone, tbl) DO UPDATE SET next = excluded.next
            """,
            [zoneName, table.name, "\(first + Int64(count))"]
        )
        try keepMap(table, ord, device, from: first)
    }

    /// Draws ids for one table's new records.
    ///
    /// - Returns: The least of them.
    func assignFromSequence(_ stored: PostgresTable, _ ord: Int) throws -> Int64 {
        let count = try staged.creationCount(stored.table, ord)
        let name = stored.table.name
        let kept = (plan == nil ? drawn.removeValue(forKey: name) : nil) ?? []
        var ids = Array(kept.prefix(count))
        if plan == nil { drawn[name] = Array(kept.dropFirst(count)) }
        if ids.count < count {
            ids += try pg.query(
                "SELECT nextval($1::regclass) FROM generate_series(1, $2::int)",
                [stored.sequence, "\(count - ids.count)"]
            ).map { $0.integer(0) ?? 0 }
        }
        if plan != nil { drawn[name, default: []] += ids }
        try staged.assign(stored.table, ord, ids: ids)
        return ids.min() ?? 1
    }

    /// The next id of a table that has no sequence.
    func nextIdentity(_ stored: PostgresTable) throws -> Int64 {
        let id = stored.column(stored.table.key[0], "t")
        return try pg.integer(
            """
            SELECT greatest(
                (SELECT next FROM tidemark.identity WHERE zone = $1 AND tbl = $2),
                (SELECT max(\(id)) + 1 FROM \(stored.name) AS t WHERE \(stored.inZone("t"))), 1)
            """,
            [zoneName, stored.table.name]
        ) ?? 1
    }

    /// The ids that one table's new records were given, a JSON array of temporary and permanent one
    /// each.
    func assigned(_ table: SyncedTable, from first: Int64) throws -> [String] {
        try String.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT json_array(temporary, permanent)
                    FROM temp.tidemark_assigned WHERE tbl = ? AND permanent >= ?
                    """
            ),
            arguments: [table.name, first]
        )
    }

    private func keepMap(
        _ table: SyncedTable,
        _ ord: Int,
        _ device: String?,
        from first: Int64
    ) throws {
        guard let device else { return }
        let given = try assigned(table, from: first).joined(separator: ",")
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
