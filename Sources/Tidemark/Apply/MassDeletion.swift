import GRDB
import TidemarkCore
import TidemarkSQLite

/// What the server's answer would take away, when that is suspiciously much.
///
/// A wiped, replaced or broken server must not empty every device that asks it for news. So an
/// answer that deletes many records is held back until the server has said, from its rows and not
/// from its books, that they really are gone; and one that comes with another history until
/// somebody has said so.
struct MassDeletion: Error, Sendable {
    /// What may be done with an answer that deletes much.
    enum Consent: Sendable {
        /// Nothing yet.
        case none
        /// The server has computed its fingerprint from all rows: apply what leads to it.
        case confirmed(revision: Int64, fingerprint: Fingerprint)
        /// Somebody has said that it is right.
        case given
    }

    /// How many records of each table would go.
    let tables: [(name: String, records: Int)]
    /// How many records there are.
    let total: Int

    /// Looks whether deleting `tables` of `total` records is much.
    init?(_ tables: [(name: String, records: Int)], of total: Int, limits: Limits) {
        let records = tables.reduce(0) { $0 + $1.records }
        let bound = max(limits.massDeletionRecordsMin, total * limits.massDeletionPercent / 100)
        guard records > bound, !planted(PlantedBug.deletesUnasked) else { return nil }
        self.tables = tables.filter { $0.records > 0 }
        self.total = total
    }

    /// Refuses the answer, applied but not committed, unless it led where consent was given for.
    func requireConsent(_ consent: Consent, to envelope: AnswerEnvelope, _ file: DeviceFile, _ rows: RowFingerprints)
        throws
    {
        guard case .confirmed(let revision, let confirmed) = consent else { return }
        guard file.tables.isZones else { throw error(because: "the app's tables are others than the server's.") }
        // The zone has moved: it has to be asked again.
        guard envelope.maxRevision <= revision else { throw self }
        let mine = try rows.all()
        guard mine == envelope.fingerprint, envelope.maxRevision < revision || mine == confirmed else {
            throw error(because: "the server's rows say otherwise than its answer.")
        }
    }

    /// The error that tells people.
    func error(because cause: String) -> TidemarkError {
        let records = tables.reduce(0) { $0 + $1.records }
        let list = tables.map { "\($0.records) of \($0.name)" }.joined(separator: ", ")
        return TidemarkError(
            .massDeletion,
            "\(records) of the \(total) records here would be deleted (\(list)): \(cause)",
            fix:
                "Nothing was deleted, and the outbox is kept. Look at the server first. If this is right, sync once with --accept-mass-deletion."
        )
    }

    /// The number of rows in all tables.
    static func total(_ db: Database, _ schema: SyncSchema) throws -> Int {
        try schema.tables.reduce(0) { sum, table in
            let count = try Int.fetchOne(db, sql: "SELECT count(*) FROM main.\(SQLText.name(table.name))")
            return sum + (count ?? 0)
        }
    }

    /// The mass deletion that a staged change set is, when the tables are as the server confirmed
    /// them.
    ///
    /// What this device deleted itself does not count.
    static func staged(as ord: Int, _ schema: SyncSchema, limits: Limits, in db: Database) throws -> MassDeletion? {
        let staged = try Int.fetchOne(
            db.cachedStatement(sql: "SELECT count(*) FROM temp.tidemark_staged WHERE ord = ? AND operation = 'delete'"),
            arguments: [ord]
        )
        guard let staged, staged > limits.massDeletionRecordsMin else { return nil }
        let tables = try schema.tables.map { table in
            let count = try Int.fetchOne(
                db,
                sql: """
                    SELECT count(*) FROM temp.tidemark_staged AS s
                    JOIN main.\(SQLText.name(table.name)) AS t ON \(KeySQL.match(table, key: "s.key", alias: "t."))
                    WHERE s.ord = ? AND s.tbl = ? AND s.operation = 'delete' AND NOT EXISTS (
                        SELECT 1 FROM tidemark_outbox AS o
                        WHERE o.tbl = s.tbl AND o.key = s.key AND o.operation = 'delete')
                    """,
                arguments: [ord, table.name]
            )
            return (name: table.name, records: count ?? 0)
        }
        return MassDeletion(tables, of: try total(db, schema), limits: limits)
    }

    /// The mass deletion that taking over the attached snapshot is.
    ///
    /// Records that only wait to be created are not the server's to delete.
    static func inSnapshot(_ schema: SyncSchema, limits: Limits, in db: Database) throws -> MassDeletion? {
        let total = try total(db, schema)
        guard total > limits.massDeletionRecordsMin else { return nil }
        let tables = try schema.tables.map { table in
            let name = SQLText.name(table.name)
            let key = SQLText.names(table.key)
            let gone = try Int.fetchOne(
                db,
                sql: """
                    SELECT count(*) FROM (SELECT \(key) FROM main.\(name) EXCEPT SELECT \(key) FROM snapshot.\(name))
                    """
            )
            let new = try Int.fetchOne(
                db,
                sql: "SELECT count(*) FROM tidemark_base WHERE tbl = ? AND image IS NULL",
                arguments: [table.name]
            )
            return (name: table.name, records: max(0, (gone ?? 0) - (new ?? 0)))
        }
        return MassDeletion(tables, of: total, limits: limits)
    }
}
