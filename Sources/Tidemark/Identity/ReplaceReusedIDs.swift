import GRDB
import TidemarkCore
import TidemarkSQL

/// Gives unused temporary ids to new records whose temporary id another record had before.
///
/// A program may write a negative id by hand. The tables do not show a former use of the id, because
/// the first record has its permanent id now. But the server remembers it, and would refuse the second
/// record for ever. So the device gives the second record an unused id before it sends the change set,
/// and updates the pending changes that refer to it.
struct ReplaceReusedIDs {
    let db: Database
    let schema: SyncSchema

    /// Renumbers new records of change sets that are not frozen yet.
    func run() throws {
        let renumbering = RenumberRecords(db: db, schema: schema)
        let isNeeded = try renumbering.assign(
            """
            SELECT DISTINCT entry.tbl, CAST(entry.key AS INTEGER) AS id
            FROM tidemark_outbox AS entry
            JOIN tidemark_changeset AS changeset ON changeset.seq = entry.seq
            JOIN tidemark_idmap AS mapping
                ON mapping.tbl = entry.tbl AND mapping.temporary = CAST(entry.key AS INTEGER)
            WHERE entry.operation = 'create' AND changeset.wire IS NULL AND NOT EXISTS (
                SELECT 1 FROM tidemark_outbox AS earlier
                WHERE earlier.tbl = entry.tbl AND earlier.key = entry.key AND earlier.seq < entry.seq)
            """)
        if isNeeded { try renumbering.renamePending() }
    }
}
