import GRDB
import TidemarkEngine
import TidemarkSQL
import TidemarkStoreSupport

/// Refused change sets as their authors sent them, for people who look at conflicts.
extension ZoneTransaction {
    /// Keeps the records of a refused change set, and forgets those of the oldest one beyond the maximum.
    func keepSent(_ envelope: SyncRequest.Envelope, base: Int64) throws {
        guard let id = envelope.id else { return }
        let sent = try staged.sentRecords(envelope.ord, base: base)
        try db.cachedStatement(
            sql: "INSERT INTO tidemark_refused (id, decided, base, sent) VALUES (?, ?, ?, ?)"
        ).executeAndClearBindings(arguments: [id, now, base, sent])
        try db.cachedStatement(sql: "DELETE FROM tidemark_refused WHERE number <= ?").execute(
            arguments: [db.lastInsertedRowID - Int64(StagedRequest.refusedMax)]
        )
    }
}
