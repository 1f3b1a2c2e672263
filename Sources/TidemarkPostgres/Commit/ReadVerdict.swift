import TidemarkEngine

extension Verdict {
    /// The stored verdicts of zone `$1`.
    static let sql = "SELECT id, device, hash, revision, as_sent FROM tidemark.verdict WHERE zone = $1"

    /// Reads a row of ``sql``.
    init(_ row: PostgresRows.Row) {
        self.init(device: row[1], hash: row.text(2), revision: row.integer(3), isAsSent: row.isTrue(4))
    }
}
