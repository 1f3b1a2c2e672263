import GRDB
import TidemarkCore
import TidemarkSQLite
import TidemarkStore

/// A committed change set as the log has it, beside the hash that its commit left.
struct LogEntry {
    let revision: Int64
    /// Who made it; nil for a program on the server.
    let device: String?
    /// The hash of the history up to here; empty in what versions wrote that had none.
    let chain: String
    /// The hash of the history before; nil when it is not known.
    let previous: String?
    /// The change set, JSON; empty when compaction has taken it away.
    let body: String

    /// The columns that ``init(_:in:)`` reads: of `tidemark_revision AS r`, joined with
    /// ``previousEntry``.
    static let columns = """
        r.revision, r.device, r.chain, r.body, \(RevisionText.restLength) AS rest,
        coalesce(nullif(p.chain, ''),
            iif(r.revision - 1 <= (SELECT adopted FROM tidemark_zone), '', NULL)) AS previous
        """
    /// Joins the entry before.
    static let previousEntry = "LEFT JOIN tidemark_revision AS p ON p.revision = r.revision - 1"

    /// Reads an entry, whole.
    init(_ row: Row, in db: Database) throws {
        revision = try row.value("revision")
        device = try row.value("device")
        chain = try row.value("chain") ?? ""
        previous = try row.value("previous")
        body = try RevisionText.whole(row.value("body") ?? "", row.value("rest"), of: revision, in: db)
    }

    /// Whether the change set is the one that was committed, as far as its hash can tell.
    var isAuthentic: Bool {
        guard !chain.isEmpty, let previous else { return !body.isEmpty }
        return chain == RecentChangeSet.chain(after: previous, revision: revision, device: device, body: body)
    }
}
