import GRDB
import TidemarkCore
import TidemarkEngine
import TidemarkStoreSupport

/// A verdict from the database.
struct StoredVerdict {
    /// The verdicts of zone `$1`.
    static let sql = "SELECT id, device, hash, revision, as_sent FROM tidemark.verdict WHERE zone = $1"

    /// The id of the change set.
    let id: String
    let verdict: Verdict

    /// Reads a row of ``sql``.
    init(_ row: PostgresRows.Row) {
        id = row.text(0)
        verdict = Verdict(device: row[1], hash: row.text(2), revision: row.integer(3), isAsSent: row.isTrue(4))
    }
}
