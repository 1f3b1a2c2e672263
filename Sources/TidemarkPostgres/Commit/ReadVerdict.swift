import TidemarkEngine

extension Verdict {
    /// The stored verdicts of zone `$1`, with the owners of their devices.
    static let sql = """
        SELECT verdict.id, verdict.device, hash, verdict.revision, as_sent, lap.user_id
        FROM tidemark.verdict AS verdict
        LEFT JOIN tidemark.lap AS lap ON lap.zone = verdict.zone AND lap.device = verdict.device
        WHERE verdict.zone = $1
        """

    /// Reads a row of ``sql``.
    init(_ row: PostgresRows.Row) {
        self.init(
            device: row[1],
            hash: row.text(2),
            revision: row.integer(3),
            isAsSent: row.isTrue(4),
            owner: row[5]
        )
    }
}
