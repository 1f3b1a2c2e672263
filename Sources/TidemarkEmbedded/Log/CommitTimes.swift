package import GRDB

/// The server's times of a zone's revisions, which never fall.
package enum CommitTimes {
    /// Finds the last revision that the server committed before a time; 0 if there is none.
    ///
    /// `time` is in milliseconds since 1970. Revisions without a known time count as earlier: those of earlier
    /// versions, and the rows that existed before the zone. It is a binary search by the primary key. The
    /// connection may be inside a read transaction.
    ///
    /// - Throws: `DatabaseError`.
    package static func lastRevision(committedBefore time: Int64, in db: Database) throws -> Int64 {
        try Int64.fetchOne(
            db.cachedStatement(
                sql: """
                    WITH RECURSIVE search (low, high) AS (
                        SELECT 0, revision FROM tidemark_zone
                        UNION ALL
                        SELECT iif(coalesce(middle.committed, 0) < ?1, (low + high + 1) / 2, low),
                            iif(coalesce(middle.committed, 0) < ?1, high, (low + high + 1) / 2 - 1)
                        FROM search
                        LEFT JOIN tidemark_revision AS middle ON middle.revision = (low + high + 1) / 2
                        WHERE low < high
                    )
                    SELECT low FROM search WHERE low = high
                    """
            ),
            arguments: [time]
        ) ?? 0
    }
}
