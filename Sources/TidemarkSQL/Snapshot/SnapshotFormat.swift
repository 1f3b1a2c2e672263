package import GRDB
import TidemarkCore

/// The layout of a snapshot file: a header in `tidemark_snapshot`, and a bare copy of each table.
///
/// Without types SQLite stores values unchanged; without constraints, triggers and indexes no SQL of the file runs.
package enum SnapshotFormat {
    /// The name of a delta's table of deleted records, with their keys in canonical JSON.
    package static let deletedTable = "tidemark_deleted"
    package static let version = 1

    package struct Header: Hashable, Sendable {
        package let zone: String
        package let epoch: String
        package let revision: Int64
        /// The zone's schema as encoded by ``SchemaText``.
        package let schema: String
        /// The fingerprint of the rows; nil if the server did not know it.
        package let fingerprint: String?
        /// In a delta, the revision since which the rows in the file changed; nil in a snapshot.
        package let since: Int64?
        /// The latest time of the zone's hybrid clock; nil if the server does not send it.
        package let time: Int64?

        package init(
            zone: String, epoch: String, revision: Int64, schema: String, fingerprint: String?, since: Int64? = nil,
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

    /// Makes a snapshot file at a path, where no file may be; `fill` writes header and rows, or returns nil for none.
    ///
    /// After a crash the next attempt builds another file, so this one needs no journal.
    package static func make(
        at path: String, prepare: (Database) throws -> Void, fill: (Database) throws -> Header?
    ) throws -> Header? {
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        configuration.busyMode = .timeout(10)
        configuration.prepareDatabase { try $0.execute(sql: "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF") }
        let file = try DatabaseQueue(path: path, configuration: configuration)
        let header = Result {
            try file.writeWithoutTransaction { db in
                try prepare(db)
                var header: Header?
                try db.inTransaction(.deferred) {
                    header = try fill(db)
                    return .commit
                }
                return header
            }
        }
        try file.close()
        return try header.get()
    }

    /// Writes the header into a new snapshot file, the main database of the connection.
    package static func write(_ header: Header, in db: Database) throws {
        try db.execute(
            sql: "CREATE TABLE tidemark_snapshot (format, zone, epoch, revision, schema, fingerprint, since, time)")
        try db.execute(
            sql: "INSERT INTO tidemark_snapshot VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            arguments: [
                version, header.zone, header.epoch, header.revision, header.schema, header.fingerprint, header.since,
                header.time,
            ])
        guard header.since != nil else { return }
        try db.execute(sql: "CREATE TABLE \(deletedTable) (tbl, key)")
    }

    /// Reads the header of a snapshot, the main database; throws `invalidResponse` for another file or version.
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
                .invalidResponse, "The file is not a Tidemark snapshot of format \(version).",
                fix: "Check the URL; a server and its devices need versions that know each other.")
        }
        return Header(
            zone: zone, epoch: epoch, revision: revision, schema: schema, fingerprint: value(row, "fingerprint"),
            since: value(row, "since"), time: value(row, "time"))
    }

    /// Returns a value; nil if it has another type or the column does not exist.
    private static func value<Value: DatabaseValueConvertible>(_ row: Row, _ column: String) -> Value? {
        (row[column] as DatabaseValue?).flatMap(Value.fromDatabaseValue)
    }

    private static func isAbsent(_ row: Row, _ column: String) -> Bool {
        (row[column] as DatabaseValue?)?.isNull ?? true
    }
}
