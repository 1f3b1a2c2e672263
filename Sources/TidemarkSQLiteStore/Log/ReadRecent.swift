package import GRDB
package import TidemarkCore
import TidemarkServer
import TidemarkSQLite
package import TidemarkStore

/// What requests that only ask need of a zone's file; read beside whoever writes.
package struct ReadRecent {
    private let db: Database
    private let hash: String
    private let shape: String

    /// Reads on a connection that is in a transaction; `hash` is that of the schema as it is sent.
    package init(_ db: Database, schema: SyncSchema, hash: String) {
        self.db = db
        self.hash = hash
        shape = ContentHash.of(schema.shape)
    }

    /// What the zone is at; nil when another program has written what no revision has.
    package func head(for device: String?) throws -> ZoneHead? {
        guard var head = try head() else { return nil }
        if head.hasNotes { head.hasNotes = try hasNotes(device) }
        return head
    }

    /// Whether notes of overruled values are kept for a device.
    func hasNotes(_ device: String?) throws -> Bool {
        try Bool.fetchOne(
            db.cachedStatement(sql: "SELECT EXISTS (SELECT 1 FROM tidemark_overruled WHERE device = ?)"),
            arguments: [device]
        ) ?? false
    }

    /// The same; whether notes are kept for anybody.
    func head() throws -> ZoneHead? {
        let row = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT z.epoch, z.revision, z.horizon, z.time, f.fingerprint, r.chain,
                        (SELECT revision FROM tidemark_overruled
                            ORDER BY number DESC LIMIT 1) AS noted,
                        EXISTS (SELECT 1 FROM tidemark_capture) AS outside
                    FROM tidemark_zone AS z
                    LEFT JOIN tidemark_revision AS r ON r.revision = z.revision
                    LEFT JOIN tidemark_fingerprint AS f ON f.revision = z.revision AND f.shape = ?
                    """
            ),
            arguments: [shape]
        )
        guard let row else { throw ZoneTransaction.notAZone }
        guard try !row.value("outside") else { return nil }
        return ZoneHead(
            state: ZoneState(
                epoch: try row.value("epoch"),
                revision: try row.value("revision"),
                horizon: try row.value("horizon"),
                schema: hash,
                time: try row.value("time")
            ),
            fingerprint: try (row.value("fingerprint") as String?).flatMap(Fingerprint.init(hex:)),
            chain: try row.value("chain") ?? "",
            hasNotes: try row.value("noted") as Int64? != nil,
            lastNoted: try row.value("noted")
        )
    }

    /// Consecutive change sets that end with the last of a range, oldest first; of the first
    /// revision, which devices are at, at least what it was.
    package func changeSets(_ range: ClosedRange<Int64>, bytesMax: Int) throws -> [RecentChangeSet] {
        let rows = try Row.fetchCursor(
            db.cachedStatement(
                sql: """
                    SELECT \(LogEntry.columns), f.fingerprint
                    FROM tidemark_revision AS r \(LogEntry.previousEntry)
                    LEFT JOIN tidemark_fingerprint AS f ON f.revision = r.revision AND f.shape = ?
                    WHERE r.revision BETWEEN ? AND ? ORDER BY r.revision DESC
                    """
            ),
            arguments: [shape, range.lowerBound, range.upperBound]
        )
        var run = [RecentChangeSet]()
        var bytes = 0
        while let row = try rows.next() {
            let beginning = try row.value("body") as String?
            let rest = try row.value("rest") as Int?
            bytes += (beginning?.utf8.count ?? 0) + (rest ?? 0)
            // Compaction has taken the body away.
            guard bytes <= bytesMax, beginning?.isEmpty == false else { break }
            let entry = try LogEntry(row, in: db)
            // The transaction that answers instead says what became of it.
            guard entry.revision == range.upperBound - Int64(run.count), entry.isAuthentic else { break }
            run.append(
                RecentChangeSet(
                    revision: entry.revision,
                    device: entry.device,
                    fingerprint: try (row.value("fingerprint") as String?).flatMap(Fingerprint.init(hex:)),
                    chain: entry.chain,
                    body: entry.body
                )
            )
        }
        if run.count == range.count - 1 { run.append(try start(range.lowerBound)) }
        return run.reversed()
    }

    /// A revision of which there is no change set: the rows came with the file, or compaction has
    /// taken it away.
    private func start(_ revision: Int64) throws -> RecentChangeSet {
        let row = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT (SELECT chain FROM tidemark_revision WHERE revision = ?1),
                        (SELECT fingerprint FROM tidemark_fingerprint
                            WHERE revision = ?1 AND shape = ?2)
                    """
            ),
            arguments: [revision, shape]
        )
        return RecentChangeSet(
            startingAt: revision,
            fingerprint: try (row?.value(1) as String?).flatMap(Fingerprint.init(hex:)),
            chain: try row?.value(0)
        )
    }
}
