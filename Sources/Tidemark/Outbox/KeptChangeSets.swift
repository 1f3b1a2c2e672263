import GRDB
import TidemarkCore
import TidemarkSQLite

/// The device's own change sets that were acknowledged, the newest of them, for a while.
///
/// A server that is put back from a backup forgets what it acknowledged since; whoever did it is
/// the only one who can offer it again. How many are kept is bounded by number and size, whichever
/// is reached first.
struct KeptChangeSets {
    let db: Database
    let limits: Limits

    /// Keeps the accepted change sets of the staged answer, which are about to leave the outbox, as
    /// far as the limits allow.
    ///
    /// One that is too large by itself takes the place of no other.
    func keepAccepted(epoch: String) throws {
        try db.cachedStatement(
            sql: """
                INSERT OR REPLACE INTO tidemark_kept (id, epoch, revision, time, bytes)
                SELECT id, ?1, revision, time, size FROM (
                    SELECT *, row_number() OVER newest AS place, sum(size) OVER newest AS total FROM (
                        SELECT c.seq, c.id, a.revision, c.time, sum(length(o.key)
                            + coalesce(length(o.before), 0) + coalesce(length(o.attributes), 0)) AS size
                        FROM temp.tidemark_answered AS a JOIN tidemark_changeset AS c USING (id)
                            JOIN tidemark_outbox AS o USING (seq)
                        WHERE NOT a.conflict GROUP BY c.seq HAVING size <= ?3
                    ) WINDOW newest AS (ORDER BY seq DESC)
                ) WHERE place <= ?2 AND total <= ?3 ORDER BY seq
                """
        ).execute(arguments: [epoch, limits.keptChangeSetsMax, limits.keptBytesMax])
        try db.cachedStatement(
            sql: """
                INSERT INTO tidemark_kept_record (number, tbl, key, operation, before, attributes)
                SELECT k.number, o.tbl, o.key, o.operation, o.before, o.attributes
                FROM temp.tidemark_answered AS a JOIN tidemark_kept AS k USING (id)
                    JOIN tidemark_changeset AS c USING (id) JOIN tidemark_outbox AS o USING (seq)
                WHERE NOT a.conflict
                """
        ).execute()
        try prune()
    }

    /// Forgets the oldest, beyond what the limits allow.
    private func prune() throws {
        try db.cachedStatement(
            sql: """
                DELETE FROM tidemark_kept WHERE number <= (
                    SELECT max(number) FROM (
                        SELECT number, row_number() OVER newest AS place, sum(bytes) OVER newest AS total
                        FROM tidemark_kept WINDOW newest AS (ORDER BY number DESC))
                    WHERE place > ? OR total > ?)
                """
        ).execute(arguments: [limits.keptChangeSetsMax, limits.keptBytesMax])
        guard db.changesCount > 0 else { return }
        try db.cachedStatement(
            sql: """
                DELETE FROM tidemark_kept_record
                WHERE number < (SELECT coalesce(min(number), 9223372036854775807) FROM tidemark_kept)
                """
        ).execute()
    }

    /// The ids to ask a server about: those kept, and those under which they would be offered
    /// again.
    static func known(in db: Database) throws -> [String] {
        try String.fetchAll(db, sql: "SELECT id FROM tidemark_kept ORDER BY number").flatMap {
            [$0, idOfferedAgain($0)]
        }
    }

    /// The id under which a forgotten change set is offered again.
    ///
    /// It follows from the forgotten one, so that two copies of a file offer one change set.
    static func idOfferedAgain(_ id: String) -> String {
        let hash = Array(ContentHash.of("offered again: \(id)"))
        let parts = [0..<8, 8..<12, 13..<16, 17..<20, 20..<32].map { String(hash[$0]) }
        // A UUID of version 8: the hash of something.
        return "\(parts[0])-\(parts[1])-8\(parts[2])-8\(parts[3])-\(parts[4])"
    }
}
