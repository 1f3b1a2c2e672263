package import GRDB
import TidemarkCore

/// A snapshot's file: one table `tidemark_snapshot` with what is inside, and a bare table for each
/// synced one.
///
/// A bare table has the columns' names and nothing else: no types, so values stay what they are; no
/// constraints, triggers or indexes, so a reader copies data and never runs anything that came with
/// the file.
package enum SnapshotFormat {
    /// The table of a delta that lists records which are gone, with their keys in canonical JSON.
    package static let deleted = "tidemark_deleted"
    /// The version of the layout.
    package static let version = 1

    /// What a snapshot says about itself.
    package struct Header: Hashable, Sendable {
        /// The zone.
        package let zone: String
        /// The zone's epoch.
        package let epoch: String
        /// The revision that the rows are at.
        package let revision: Int64
        /// The statements that make the zone's tables and indexes, and the policies, JSON.
        package let schema: String
        /// The fingerprint of the rows; nil when the server did not know it.
        package let fingerprint: String?
        /// The revision after which rows changed that are in the file; nil: all rows are.
        package let since: Int64?
        /// The last time of the zone's hybrid clock; nil when the server does not tell.
        package let time: Int64?

        /// Makes a header.
        package init(
            zone: String,
            epoch: String,
            revision: Int64,
            schema: String,
            fingerprint: String?,
            since: Int64? = nil,
            time: Int64? = nil
        ) {
            self.zone = zone
            self.epoch = epoch
            self.revision = revision
            self.schema = schema
            self.fingerprint = fingerprint
            self.since = since
            self.time = time
        }
    }

    /// Writes the header into a new snapshot file, the main database of the connection.
    package static func write(_ header: Header, in db: Database) throws {
        try db.execute(
            sql: "CREATE TABLE tidemark_snapshot (format, zone, epoch, revision, schema, fingerprint, since, time)"
        )
        try db.execute(
            sql: "INSERT INTO tidemark_snapshot VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            arguments: [
                version, header.zone, header.epoch, header.revision, header.schema, header.fingerprint, header.since,
                header.time,
            ]
        )
        guard header.since != nil else { return }
        try db.execute(sql: "CREATE TABLE \(deleted) (tbl, key)")
    }

    /// Reads the header of a snapshot file, the main database of the connection.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` with `invalidResponse` when it is no snapshot of
    ///   this version.
    package static func header(in db: Database) throws -> Header {
        guard try db.tableExists("tidemark_snapshot"),
            let row = try Row.fetchOne(db, sql: "SELECT * FROM tidemark_snapshot"),
            value(row, "format") as Int? == version, let zone = value(row, "zone") as String?,
            let epoch = value(row, "epoch") as String?, let revision = value(row, "revision") as Int64?,
            let schema = value(row, "schema") as String?,
            isAbsent(row, "fingerprint") || value(row, "fingerprint") as String? != nil,
            isAbsent(row, "since") || value(row, "since") as Int64? != nil,
            isAbsent(row, "time") || value(row, "time") as Int64? != nil
        else {
            throw TidemarkError(
                .invalidResponse,
                "The file is no Tidemark snapshot of format \(version).",
                fix: "Check the URL; a server and its devices need versions that know each other."
            )
        }
        return Header(
            zone: zone,
            epoch: epoch,
            revision: revision,
            schema: schema,
            fingerprint: value(row, "fingerprint"),
            since: value(row, "since"),
            time: value(row, "time")
        )
    }

    /// A value of the type that it should have; nil also for another type, or no such column.
    private static func value<Value: DatabaseValueConvertible>(_ row: Row, _ column: String) -> Value? {
        (row[column] as DatabaseValue?).flatMap(Value.fromDatabaseValue)
    }

    private static func isAbsent(_ row: Row, _ column: String) -> Bool {
        (row[column] as DatabaseValue?)?.isNull ?? true
    }
}
