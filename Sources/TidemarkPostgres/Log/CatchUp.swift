import TidemarkCore
import TidemarkEngine

/// The revisions that a device misses.
extension PostgresTransaction {
    func hasRevision(by device: String, after revision: Int64, through last: Int64) throws -> Bool {
        try pg.query(
            """
            SELECT EXISTS (SELECT 1 FROM tidemark.revision WHERE zone = $1
                AND revision > $2::bigint AND revision <= $3::bigint AND device = $4)
            """,
            [zoneName, "\(revision)", "\(last)", device]
        )[0].isTrue(0)
    }

    func catchUp(_ missed: MissedRevisions) throws -> CatchUp {
        if let known = beginning.catchUp(missed) { return known }
        // One row beyond the limit tells whether more revisions follow. The sum of the lengths may end
        // the list earlier, and a body beyond it is not read.
        let rows = try pg.query(
            """
            SELECT revision, bytes, whole, ids,
                CASE WHEN bytes <= $6::bigint OR $7::boolean AND bytes = octet_length(body) THEN body END,
                device, chain, previous
            FROM (
                SELECT *, sum(octet_length(body)) OVER (ORDER BY revision) AS bytes
                FROM (
                    SELECT entry.revision, own.body AS whole, own.ids, entry.body, entry.device, entry.chain,
                        coalesce(nullif(before.chain, ''),
                            CASE WHEN entry.revision - 1 <= zone.adopted THEN '' END) AS previous
                    FROM tidemark.revision AS entry
                    JOIN tidemark.zone AS zone ON zone.zone = entry.zone
                    LEFT JOIN tidemark.revision AS before
                        ON before.zone = entry.zone AND before.revision = entry.revision - 1
                    LEFT JOIN tidemark.verdict AS own
                        ON own.zone = entry.zone AND own.id = entry.id AND own.device = $4
                    WHERE entry.zone = $1 AND entry.revision > $2::bigint AND entry.revision <= $3::bigint
                    ORDER BY entry.revision
                    LIMIT $5::int
                ) AS page
            ) AS measured
            WHERE bytes - octet_length(body) <= $6::bigint
            ORDER BY revision
            """,
            [
                zoneName, "\(missed.after)", "\(missed.through)", missed.device, "\(missed.limit + 1)",
                "\(missed.bytesMax)", "\(missed.bringsFirst)",
            ]
        )
        var bodies = [String]()
        var reached = missed.after
        for row in rows.map({ $0 }) {
            let fits = bodies.count < missed.limit && row.integer(1) ?? 0 <= missed.bytesMax
            guard bodies.isEmpty && missed.bringsFirst || fits else {
                return CatchUp(bodies: bodies, revision: reached, hasMore: true)
            }
            guard row.integer(0) == reached + 1, Self.isAuthentic(row) else { throw DamagedLog(revision: reached + 1) }
            let copy = AuthorsCopy(whole: row[2], ids: row[3], logged: row[4])
            bodies.append(try copy.render())
            reached += 1
        }
        // A first body above the limit is the only row.
        let isCut = rows.count == 1 && rows[0].integer(1) ?? 0 > missed.bytesMax
        guard reached == missed.through || isCut else { throw DamagedLog(revision: reached + 1) }
        return CatchUp(bodies: bodies, revision: reached, hasMore: reached < missed.through)
    }

    /// Checks by its hash that a row of ``catchUp(_:)`` has the change set as it was committed.
    private static func isAuthentic(_ row: PostgresRows.Row) -> Bool {
        guard let body = row[4], let previous = row[7] else { return row[4]?.isEmpty == false }
        return row.text(6)
            == RecentChangeSet.chain(after: previous, revision: row.integer(0) ?? 0, device: row[5], body: body)
    }
}
