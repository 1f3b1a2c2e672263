import GRDB
import TidemarkCore
import TidemarkServer
import TidemarkSQLite
import TidemarkStore

/// Permanent ids: given in the commit that creates the records.
extension PostgresTransaction {
    func recallIdentities(device: String?) throws {
        guard let device else { return }
        let wanted = try staged.wantedIdentities()
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

    func begin(_ ord: Int, device: String?) throws -> Int64 {
        let revision = nextRevision()
        for table in try staged.tablesWithTemporaryCreates(ord) { try assign(table, ord, device) }
        try staged.nameIdentities(ord)
        return revision
    }

    /// Gives ids to one table's new records.
    ///
    /// An id is never given twice, also when its record is long gone.
    private func assign(_ table: SyncedTable, _ ord: Int, _ device: String?) throws {
        guard let stored = self.table(table.name) else { return }
        let id = stored.column(table.key[0], "t")
        let first =
            try pg.integer(
                """
                SELECT greatest(
                    (SELECT next FROM tidemark.identity WHERE zone = $1 AND tbl = $2),
                    (SELECT max(\(id)) + 1 FROM \(stored.name) AS t WHERE \(stored.inZone("t"))), 1)
                """,
                [zoneName, table.name]
            ) ?? 1
        let count = try staged.assign(table, ord, from: first)
        try pg.query(
            """
            INSERT INTO tidemark.identity VALUES ($1, $2, $3::bigint)
            ON CONFLICT (zone, tbl) DO UPDATE SET next = excluded.next
            """,
            [zoneName, table.name, "\(first + Int64(count))"]
        )
        guard let device else { return }
        let given = try String.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT json_group_array(json_array(temporary, permanent))
                    FROM temp.tidemark_assigned WHERE tbl = ? AND permanent >= ?
                    """
            ),
            arguments: [table.name, first]
        )
        do {
            try pg.query(
                """
                INSERT INTO tidemark.idmap
                SELECT $1, $2, $3, (w ->> 0)::bigint, (w ->> 1)::bigint
                FROM jsonb_array_elements($4::jsonb) AS w
                """,
                [zoneName, device, table.name, given ?? "[]"]
            )
        } catch let failure as PostgresFailure where failure.state == "23505" {
            throw StagedRequest.usedTemporaryId(table, ord)
        }
    }
}
