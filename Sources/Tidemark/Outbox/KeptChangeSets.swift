import GRDB
import TidemarkCore
import TidemarkSQL

/// Keeps the device's newest acknowledged change sets.
///
/// A server restored from a backup has forgotten the change sets that it acknowledged since. Only
/// their author can offer them again. The number and the total size of kept change sets are bounded.
struct KeptChangeSets {
    let db: Database
    let limits: Limits

    /// Keeps accepted change sets; one above the limit is not kept and displaces no other.
    func keep(_ accepted: [Answered.Own], epoch: String) throws {
        guard !accepted.isEmpty else { return }
        let list = JSONText.array(accepted.map { "[\($0.pending.seq),\($0.set.revision)]" })
        try db.execute(
            cached: """
                INSERT OR REPLACE INTO tidemark_kept (id, first, epoch, revision, time, bytes)
                SELECT id, first, ?1, revision, time, size FROM (
                    SELECT *, row_number() OVER newest AS place, sum(size) OVER newest AS total FROM (
                        SELECT changeset.seq, changeset.id, changeset.first, changeset.time,
                            answered.value ->> 1 AS revision,
                            sum(length(pending.key) + coalesce(length(pending.before), 0)
                                + coalesce(length(pending.attributes), 0)) AS size
                        FROM json_each(?4) AS answered
                        CROSS JOIN tidemark_changeset AS changeset ON changeset.seq = answered.value ->> 0
                        JOIN tidemark_outbox AS pending USING (seq)
                        GROUP BY changeset.seq
                        HAVING size <= ?3
                    ) WINDOW newest AS (ORDER BY seq DESC)
                )
                WHERE place <= ?2 AND total <= ?3
                ORDER BY seq
                """, arguments: [epoch, limits.keptChangeSetsMax, limits.keptBytesMax, list])
        try db.execute(
            cached: """
                INSERT INTO tidemark_kept_record (number, tbl, key, operation, before, attributes)
                SELECT kept_set.number, pending.tbl, pending.key, pending.operation, pending.before,
                    pending.attributes
                FROM json_each(?) AS answered
                CROSS JOIN tidemark_changeset AS changeset ON changeset.seq = answered.value ->> 0
                JOIN tidemark_kept AS kept_set ON kept_set.id = changeset.id
                JOIN tidemark_outbox AS pending USING (seq)
                """, arguments: [list])
        try prune()
    }

    private func prune() throws {
        try db.execute(
            cached: """
                DELETE FROM tidemark_kept WHERE number <= (
                    SELECT max(number) FROM (
                        SELECT number, row_number() OVER newest AS place, sum(bytes) OVER newest AS total
                        FROM tidemark_kept WINDOW newest AS (ORDER BY number DESC))
                    WHERE place > ? OR total > ?)
                """, arguments: [limits.keptChangeSetsMax, limits.keptBytesMax])
        guard db.changesCount > 0 else { return }
        try db.execute(
            cached: """
                DELETE FROM tidemark_kept_record
                WHERE number < (SELECT coalesce(min(number), 9223372036854775807) FROM tidemark_kept)
                """)
    }

    /// The ids of one kept change set: as its author made it, and as the device offers it after a server has lost it.
    struct IDs {
        /// The id in `tidemark_kept`.
        let present: String
        let first: String
        var again: String { planted(PlantedBug.offersUnderNewIDs) ? idOfferedAgain(present) : idOfferedAgain(first) }

        func isKnown(by ids: Set<String>) -> Bool {
            if planted(PlantedBug.offersUnderNewIDs) { return ids.contains(present) || ids.contains(again) }
            return ids.contains(first) || ids.contains(again)
        }
    }

    /// Returns the ids of the kept change sets, oldest first.
    static func ids(in db: Database) throws -> [IDs] {
        try Row.fetchAll(db, sql: "SELECT id, coalesce(first, id) AS first FROM tidemark_kept ORDER BY number").map {
            IDs(present: try $0.value("id"), first: try $0.value("first"))
        }
    }

    static func idsToRecall(in db: Database) throws -> [String] {
        try ids(in: db).flatMap { $0.present == $0.first ? [$0.first, $0.again] : [$0.first, $0.present] }
    }

    /// Returns the id under which the device offers a forgotten change set again, however often.
    ///
    /// It is derived from the first id, so that two copies of a file offer the same change set, even if a server has
    /// lost it twice and one of the copies is older than that.
    private static func idOfferedAgain(_ id: String) -> String {
        let hash = Array(ContentHash.of("offered again: \(id)"))
        let parts = [0..<8, 8..<12, 13..<16, 17..<20, 20..<32].map { String(hash[$0]) }
        // A UUID of version 8 may hold a custom hash.
        return "\(parts[0])-\(parts[1])-8\(parts[2])-8\(parts[3])-\(parts[4])"
    }
}
