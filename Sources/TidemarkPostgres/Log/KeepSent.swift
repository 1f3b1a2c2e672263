import TidemarkEngine
import TidemarkStoreSupport

/// Refused change sets as their authors sent them, for people who look at conflicts.
extension PostgresTransaction {
    /// Keeps the records of a refused change set, and forgets those of the oldest one beyond the maximum.
    func keepSent(_ envelope: SyncRequest.Envelope, base: Int64) throws {
        guard let id = envelope.id else { return }
        let sent = try staged.sentRecords(envelope.ord, base: base)
        // The transaction holds the zone's lock, so no other one takes the same number.
        try pg.query(
            """
            WITH latest AS (
                SELECT coalesce(max(number), 0) + 1 AS number FROM tidemark.refused WHERE zone = $1
            ), kept AS (
                INSERT INTO tidemark.refused (zone, number, id, decided, base, sent)
                SELECT $1, number, $2, $3::bigint, $4::bigint, $5 FROM latest
            )
            DELETE FROM tidemark.refused AS refused
            USING latest
            WHERE refused.zone = $1 AND refused.number <= latest.number - $6::bigint
            """,
            [zoneName, id, "\(now)", "\(base)", sent, "\(StagedRequest.refusedMax)"]
        )
    }
}
