/// The servers' times of a zone's revisions, which never fall.
package enum CommitTimes {
    /// Finds the last revision of a zone that a server committed before a time; 0 if there is none.
    ///
    /// `time` is in milliseconds since 1970. Revisions without a known time count as earlier: those of earlier
    /// versions, and the rows that existed before the zone. It is a binary search by the primary key, in one
    /// statement. The connection may be inside a read transaction.
    ///
    /// - Throws: ``PostgresFailure``.
    package static func lastRevision(committedBefore time: Int64, zone: String, _ pg: PostgresConnection) throws
        -> Int64
    {
        try pg.integer(
            """
            WITH RECURSIVE search (low, high) AS (
                SELECT 0::bigint, revision FROM tidemark.zone WHERE zone = $1
                UNION ALL
                SELECT CASE WHEN coalesce(middle.committed, 0) < $2::bigint THEN (low + high + 1) / 2 ELSE low END,
                    CASE WHEN coalesce(middle.committed, 0) < $2::bigint THEN high ELSE (low + high + 1) / 2 - 1 END
                FROM search
                LEFT JOIN tidemark.revision AS middle
                    ON middle.zone = $1 AND middle.revision = (low + high + 1) / 2
                WHERE low < high
            )
            SELECT low FROM search WHERE low = high
            """,
            [zone, "\(time)"]
        ) ?? 0
    }
}
