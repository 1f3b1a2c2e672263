package import GRDB
package import TidemarkCore
package import TidemarkEngine
import TidemarkSQL

/// Reads a zone's head and recent change sets, concurrently with the writer.
package struct ReadRecent {
    private let db: Database
    private let hash: String
    private let fingerprintLayoutHash: String

    /// Wraps a connection that is inside a transaction; `hash` is the hash of the schema's JSON.
    package init(_ db: Database, schema: SyncSchema, hash: String) {
        self.db = db
        self.hash = hash
        fingerprintLayoutHash = ContentHash.of(schema.shape)
    }

    /// Returns the zone's head for a device; nil if another program's changes are not logged yet.
    package func head(for device: String?) throws -> ZoneHead? {
        guard var head = try head() else { return nil }
        head.hasMessages = try hasMessages(device)
        return head
    }

    /// Whether the file has notes of overruled values for a device, or has forgotten it.
    func hasMessages(_ device: String?) throws -> Bool {
        guard let device else { return false }
        return try Bool.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT EXISTS (SELECT 1 FROM tidemark_overruled WHERE device = ?1)
                        OR EXISTS (SELECT 1 FROM tidemark_lap WHERE device = ?1 AND lap = ?2)
                    """
            ),
            arguments: [device, Exchange.forgottenLap]
        ) ?? false
    }

    /// Returns the zone's head, as for a device without messages.
    func head() throws -> ZoneHead? {
        let row = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT zone.epoch, zone.revision, zone.horizon, zone.time, stored.fingerprint, log_entry.chain,
                        (SELECT revision FROM tidemark_overruled ORDER BY number DESC LIMIT 1) AS last_note,
                        EXISTS (SELECT 1 FROM tidemark_capture) AS has_captured
                    FROM tidemark_zone AS zone
                    LEFT JOIN tidemark_revision AS log_entry ON log_entry.revision = zone.revision
                    LEFT JOIN tidemark_fingerprint AS stored
                        ON stored.revision = zone.revision AND stored.shape = ?
                    """
            ),
            arguments: [fingerprintLayoutHash]
        )
        guard let row else { throw ZoneTransaction.notAZone }
        guard try !row.value("has_captured") else { return nil }
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
            hasMessages: false,
            lastNoteRevision: try row.value("last_note")
        )
    }

    /// Returns consecutive change sets that end with the last of a range, oldest first.
    ///
    /// The first revision of the range may have no body: devices are at this revision already.
    package func changeSets(_ range: ClosedRange<Int64>, bytesMax: Int) throws -> [RecentChangeSet] {
        let rows = try Row.fetchCursor(
            db.cachedStatement(
                sql: """
                    SELECT \(LogEntry.columns), stored.fingerprint
                    FROM tidemark_revision AS log_entry
                    \(LogEntry.previousEntry)
                    LEFT JOIN tidemark_fingerprint AS stored
                        ON stored.revision = log_entry.revision AND stored.shape = ?
                    WHERE log_entry.revision BETWEEN ? AND ?
                    ORDER BY log_entry.revision DESC
                    """
            ),
            arguments: [fingerprintLayoutHash, range.lowerBound, range.upperBound]
        )
        var run = [RecentChangeSet]()
        var bytes = 0
        while let row = try rows.next() {
            let beginning = try row.value("body") as String?
            let rest = try row.value("rest") as Int?
            bytes += (beginning?.utf8.count ?? 0) + (rest ?? 0)
            // Compaction deleted the body, or the bodies exceed the bound.
            guard bytes <= bytesMax, beginning?.isEmpty == false else { break }
            let entry = try LogEntry(row, in: db)
            // Without a cached answer, the store answers in a transaction, which reports the damage.
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

    /// Reads a revision without a change set: the rows came with the file, or compaction deleted it.
    private func start(_ revision: Int64) throws -> RecentChangeSet {
        let row = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT (SELECT chain FROM tidemark_revision WHERE revision = ?1),
                        (SELECT fingerprint FROM tidemark_fingerprint WHERE revision = ?1 AND shape = ?2)
                    """
            ),
            arguments: [revision, fingerprintLayoutHash]
        )
        return RecentChangeSet(
            startingAt: revision,
            fingerprint: try (row?.value(1) as String?).flatMap(Fingerprint.init(hex:)),
            chain: try row?.value(0)
        )
    }
}
