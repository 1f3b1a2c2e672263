import GRDB
import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// A log entry: a committed change set and the chain hash that its commit stored.
struct LogEntry {
    let revision: Int64
    /// The device that made the change set; nil for a program on the server.
    let device: String?
    /// The hash of the history up to this entry; empty in entries of versions without hashes.
    let chain: String
    /// The hash of the history before this entry; nil if unknown.
    let previous: String?
    /// The change set as JSON; empty after compaction.
    let body: String

    /// The columns that ``init(_:in:)`` reads from `tidemark_revision AS log_entry`, joined with
    /// ``previousEntry``.
    static let columns = """
        log_entry.revision, log_entry.device, log_entry.chain, log_entry.body,
        \(RevisionText.restLength) AS rest,
        coalesce(
            nullif(previous_entry.chain, ''),
            iif(log_entry.revision - 1 <= (SELECT adopted FROM tidemark_zone), '', NULL)) AS previous
        """
    /// Joins the previous entry.
    static let previousEntry = """
        LEFT JOIN tidemark_revision AS previous_entry ON previous_entry.revision = log_entry.revision - 1
        """

    /// Reads an entry with its whole text.
    init(_ row: Row, in db: Database) throws {
        revision = try row.value("revision")
        device = try row.value("device")
        chain = try row.value("chain") ?? ""
        previous = try row.value("previous")
        body = try RevisionText.whole(row.value("body") ?? "", row.value("rest"), of: revision, in: db)
    }

    /// Whether the chain hash matches the change set; without a hash, any change set that is not empty passes.
    var isAuthentic: Bool {
        guard !chain.isEmpty, let previous else { return !body.isEmpty }
        return chain == RecentChangeSet.chain(after: previous, revision: revision, device: device, body: body)
    }
}
