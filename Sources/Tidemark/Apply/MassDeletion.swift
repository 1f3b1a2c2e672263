import GRDB
import TidemarkCore
import TidemarkSQL

/// A suspiciously large deletion in an answer or a snapshot.
///
/// A wiped, replaced or broken server must not empty every device that syncs. So the device holds
/// back an answer that deletes many records. It applies the answer after the server has computed its
/// fingerprint from all rows. If the epoch changed, a person must approve the deletion.
struct MassDeletion: Error, Sendable {
    enum Consent: Sendable {
        case none
        /// The server has computed this fingerprint from all rows; the answer must lead to it.
        case confirmed(revision: Int64, fingerprint: Fingerprint)
        /// A person has approved it.
        case approved
    }

    /// The number of records to delete, by table.
    let tables: [(name: String, records: Int)]
    /// The number of records in all tables.
    let total: Int

    /// Returns nil if the deletion is small enough to need no consent.
    init?(_ tables: [(name: String, records: Int)], of total: Int, limits: Limits) {
        let records = tables.reduce(0) { $0 + $1.records }
        let bound = max(limits.massDeletionRecordsMin, total * limits.massDeletionPercent / 100)
        guard records > bound, !planted(PlantedBug.deletesUnasked) else { return nil }
        self.tables = tables.filter { $0.records > 0 }
        self.total = total
    }

    /// Throws unless an answer or a snapshot, applied but not committed, leads to the confirmed fingerprint.
    func requireConsent(
        _ consent: Consent, at newRevision: Int64, _ theirs: Fingerprint?, file: DeviceFile, rows: RowFingerprints
    ) throws {
        guard case .confirmed(let revision, let confirmed) = consent else { return }
        guard file.tables.isZones else { throw error(because: "the app's tables differ from the server's.") }
        // The zone has newer revisions, so the server must confirm again.
        guard newRevision <= revision else { throw self }
        let mine = try rows.all()
        guard mine == theirs, newRevision < revision || mine == confirmed else {
            throw error(because: "the server's rows do not match its answer.")
        }
    }

    func error(because cause: String) -> TidemarkError {
        let records = tables.reduce(0) { $0 + $1.records }
        let list = tables.map { "\($0.records) of \($0.name)" }.joined(separator: ", ")
        return TidemarkError(
            .massDeletion, "\(records) of the \(total) records here would be deleted (\(list)): \(cause)",
            fix:
                "Nothing was deleted, and the outbox is kept. Look at the server first. If this is right, sync once with --accept-mass-deletion."
        )
    }

    static func countRows(_ db: Database, _ schema: SyncSchema) throws -> Int {
        try schema.tables.reduce(0) { sum, table in
            let count = try Int.fetchOne(db, sql: "SELECT count(*) FROM main.\(SQLText.name(table.name))")
            return sum + (count ?? 0)
        }
    }

    /// Finds one in a change set, while the tables hold the confirmed rows; this device's own do not count.
    static func find(_ changeSet: PendingChangeSet, _ schema: SyncSchema, limits: Limits, in db: Database) throws
        -> MassDeletion?
    {
        let deleted = changeSet.records.filter { $0.operation == .delete }
        guard deleted.count > limits.massDeletionRecordsMin else { return nil }
        let tables = try schema.tables.enumerated().map { place, table in
            let keys = deleted.filter { $0.table == place }.map { JSONText.quote($0.key) }
            let count = try Int.fetchOne(
                db,
                sql: """
                    SELECT count(*)
                    FROM json_each(?) AS gone
                    CROSS JOIN main.\(SQLText.name(table.name)) AS app_row
                        ON \(KeySQL.match(table, key: "gone.value", alias: "app_row."))
                    WHERE NOT EXISTS (
                        SELECT 1 FROM tidemark_outbox AS entry
                        WHERE entry.tbl = ? AND entry.key = gone.value AND entry.operation = 'delete')
                    """, arguments: [JSONText.array(keys), table.name])
            return (name: table.name, records: count ?? 0)
        }
        return MassDeletion(tables, of: try countRows(db, schema), limits: limits)
    }

    /// Finds one in the attached snapshot; records that the server has never had do not count.
    static func findInSnapshot(_ schema: SyncSchema, limits: Limits, in db: Database) throws -> MassDeletion? {
        let total = try countRows(db, schema)
        guard total > limits.massDeletionRecordsMin else { return nil }
        let tables = try schema.tables.map { table in
            let name = SQLText.name(table.name)
            let key = SQLText.names(table.key)
            let missingCount = try Int.fetchOne(
                db,
                sql: """
                    SELECT count(*) FROM (
                        SELECT \(key) FROM main.\(name)
                        EXCEPT
                        SELECT \(key) FROM snapshot.\(name))
                    """)
            let newCount = try Int.fetchOne(
                db, sql: "SELECT count(*) FROM tidemark_base WHERE tbl = ? AND image IS NULL", arguments: [table.name])
            return (name: table.name, records: max(0, (missingCount ?? 0) - (newCount ?? 0)))
        }
        return MassDeletion(tables, of: total, limits: limits)
    }
}
