import GRDB
import TidemarkHistory

/// The bookkeeping of a device's file, read by plain `SELECT`.
struct DeviceReading {
    private(set) var identity = ""
    private(set) var epoch: String?
    private(set) var cursor: Int64 = 0
    /// Captured changes that are not in the outbox yet.
    private(set) var captured = 0
    /// The tables of the file and of the zone to which the bookkeeping is fitted; read only where
    /// tables change.
    private(set) var fitted: Fitted?
    /// The connection's count of changed rows when this was read.
    private(set) var changes = 0
    private var outbox: [[UInt8]] = []
    private var inbox: [[UInt8]] = []
    private var identities: Set<IdentityPair> = []

    /// A file's tables and the zone's, each as text.
    struct Fitted: Equatable {
        let own: String
        let zone: String
    }

    /// Reads the file.
    ///
    /// Each step reports only the differences from `old`.
    init(_ db: Database, after old: DeviceReading?, readsTables: Bool) throws {
        let row = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT device_row.device, device_row.epoch, state.revision,
                        (SELECT count(*) FROM tidemark_capture), (SELECT count(*) FROM tidemark_idmap)
                    FROM tidemark_device AS device_row, tidemark_state AS state
                    """)
        )
        guard let row else { throw Finding("I9", actor: "device", detail: "its bookkeeping is gone") }
        identity = row[0]
        epoch = row[1]
        cursor = row[2]
        captured = row[3]
        changes = db.totalChangesCount
        if readsTables { fitted = try Self.readFitted(db) }
        outbox = try Self.outboxSQL.map { try RowBytes.read($0.sql, columns: $0.columns, in: db) }
        inbox = try Self.inboxSQL.map { try RowBytes.read($0.sql, columns: $0.columns, in: db) }
        identities = old?.identities ?? []
        guard row[4] as Int != identities.count else { return }
        let pairs = try Row.fetchAll(db.cachedStatement(sql: "SELECT tbl, temporary, permanent FROM tidemark_idmap"))
        identities = Set(pairs.map { IdentityPair($0[0], temporary: $0[1], permanent: $0[2]) })
    }

    private static func readFitted(_ db: Database) throws -> Fitted? {
        let row = try Row.fetchOne(db.cachedStatement(sql: "SELECT fitted_local, fitted_schema FROM tidemark_device"))
        return row.map { Fitted(own: $0[0] ?? "", zone: $0[1] ?? "") }
    }

    /// Forces a new reading.
    ///
    /// The connection may be another one, whose count of changes begins at 0.
    mutating func forgetCount() { changes = -1 }

    /// The step of an engine, as the differences from before.
    func step(
        _ device: String, _ name: String, from old: DeviceReading, rows: [RowChange], renumbered: [IdentityPair] = [],
        captured: Int, resolved: [String], fit: DeviceStep.Fit? = nil, wall: Int64? = nil
    ) -> DeviceStep {
        DeviceStep(
            device: device,
            step: name,
            identity: identity,
            epoch: epoch,
            cursor: cursor,
            rows: rows,
            outbox: outbox == old.outbox ? nil : outboxSets,
            conflicts: inbox == old.inbox ? nil : parkedSets,
            identities: identities.subtracting(old.identities).sorted {
                ($0.table, $0.temporary) < ($1.table, $1.temporary)
            },
            renumbered: renumbered.filter { !identities.contains($0) },
            captured: captured,
            resolved: resolved,
            fit: fit,
            wall: wall)
    }

    // MARK: Queues

    private static let outboxSQL = [
        (
            sql: """
            SELECT seq, id, wire || coalesce((
                SELECT group_concat(text, '') FROM (
                    SELECT text
                    FROM tidemark_wire_rest AS piece
                    WHERE piece.seq = queued.seq
                    ORDER BY number)), ''), time
            FROM tidemark_changeset AS queued
            ORDER BY seq
            """, columns: 4
        ),
        (
            sql: """
            SELECT seq, tbl, key, operation, attributes, base FROM tidemark_outbox
            ORDER BY seq, tbl, key
            """, columns: 6
        ), (sql: "SELECT seq, id FROM tidemark_after ORDER BY seq, id", columns: 2),
    ]

    private static let inboxSQL = [
        (sql: "SELECT id, reasons, kind FROM tidemark_conflict ORDER BY number", columns: 3),
        (
            sql: """
            SELECT id, tbl, key, operation, base, mine, theirs FROM tidemark_conflict_record
            ORDER BY id, tbl, key
            """, columns: 7
        ),
    ]

    private var outboxSets: [OutboxSet] {
        let changes = Dictionary(grouping: RowBytes.rows(outbox[1], columns: 6)) { $0[0].text }
        let after = Dictionary(grouping: RowBytes.rows(outbox[2], columns: 2)) { $0[0].text }
        return RowBytes.rows(outbox[0], columns: 4).map { row in
            OutboxSet(
                id: row[1].text,
                after: (after[row[0].text] ?? []).map { $0[1].text },
                changes: (changes[row[0].text] ?? []).map { change in
                    RecordChange(
                        RecordID(change[1].text, change[2].text),
                        operation: RecordChange.Operation(rawValue: change[3].text) ?? .update,
                        cells: WireReading.cells(ofImage: change[4].bytes, of: change[1].text),
                        base: Int64(change[5].text))
                },
                wire: row[2].isNull ? nil : row[2].text,
                time: Int64(row[3].text) ?? 0)
        }
    }

    private var parkedSets: [ParkedSet] {
        let records = Dictionary(grouping: RowBytes.rows(inbox[1], columns: 7)) { $0[0].text }
        return RowBytes.rows(inbox[0], columns: 3).map { row in
            ParkedSet(
                id: row[0].text,
                items: (records[row[0].text] ?? []).map { record in
                    ParkedSet.Item(
                        RecordID(record[1].text, record[2].text), RecordChange.Operation(rawValue: record[3].text),
                        base: record[4].cells(of: record[1].text), mine: record[5].cells(of: record[1].text),
                        theirs: record[6].cells(of: record[1].text))
                },
                reasons: row[1].text,
                isOverruled: row[2].text == "overruled")
        }
    }
}

extension RowBytes.Value {
    /// The columns of an image of a table's row; nil if there is none.
    fileprivate func cells(of table: String) -> Cells? { isNull ? nil : WireReading.cells(ofImage: bytes, of: table) }
}
