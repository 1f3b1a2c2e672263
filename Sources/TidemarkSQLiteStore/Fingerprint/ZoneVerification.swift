import Foundation
import GRDB
public import TidemarkCore
import TidemarkServer
import TidemarkSQLite

/// Whether a zone's rows are those that its commits made of them, and its log what they left.
public struct ZoneVerification: Sendable {
    /// An entry of the log that is not the one that was committed, or is gone.
    public struct DamagedEntry: Hashable, Sendable, Encodable {
        /// Its revision.
        public let revision: Int64
        /// The tables that the revision changed, as far as that is known.
        public let tables: [String]
    }

    /// The zone's latest revision.
    public let revision: Int64
    /// The latest revision in the log; later than the zone's only when the file is damaged.
    public let logEnd: Int64
    /// The entries of the log that devices cannot be given.
    public let damagedEntries: [DamagedEntry]
    /// The fingerprint that the commits added up to; nil while nobody has asked for one.
    public let expected: Fingerprint?
    /// The fingerprint of the rows.
    public let computed: Fingerprint

    /// Computes the fingerprint of a zone's file from its rows, and the hashes of its log.
    ///
    /// Rows that differ from what the commits made of them are the truth all the same: their
    /// fingerprint is kept, so that devices notice at their next sync and take them over.
    ///
    /// - Parameters:
    ///   - path: The zone's file; it may be served meanwhile.
    ///   - repairing: Whether a damaged log is taken away, so that devices behind it take a
    ///     snapshot, and a zone that is behind its log goes on from its end.
    /// - Throws: ``TidemarkCore/TidemarkError`` when the file is no zone, or `DatabaseError`.
    public init(path: String, repairing: Bool) throws {
        var configuration = Configuration()
        configuration.busyMode = .timeout(10)
        let file = try DatabaseQueue(path: path, configuration: configuration)
        self = try file.writeWithoutTransaction { db in
            var found: ZoneVerification?
            try db.inTransaction(.immediate) {
                found = try ZoneVerification(db, repairing: repairing)
                return .commit
            }
            guard let found else {
                throw TidemarkError(
                    .internalFailure,
                    "A transaction ended without a result.",
                    fix: "Please report this."
                )
            }
            return found
        }
    }

    private init(_ db: Database, repairing: Bool) throws {
        let unserved = try SchemaIntrospection.unserved(in: db)
        let schema = try SchemaIntrospection(db, excluding: unserved).validated()
        try EngineConnection.prepare(db, schema: schema)
        // Nothing here asks for the time.
        let zone = try ZoneTransaction(db, schema: schema, now: 0)
        (revision, logEnd) = try ZoneTransaction.ends(in: db)
        damagedEntries = try Self.damagedEntries(in: db)
        expected = try zone.keptFingerprint(at: revision)
        let rows = RowFingerprints(db, schema: schema)
        // What other programs wrote is in no revision before the server takes it in.
        var outside = Fingerprint.none
        if let range = try ReduceCapture.pending(in: db) {
            try ReduceCapture.reduce(range, schema: schema, in: db)
            outside = try rows.reduced()
        }
        computed = try rows.all() - outside
        if repairing || expected != nil && expected != computed {
            try zone.keepFingerprint(computed, at: max(revision, repairing ? logEnd : 0))
        }
        guard repairing else { return }
        if revision < logEnd { try db.execute(sql: "UPDATE tidemark_zone SET revision = ?", arguments: [logEnd]) }
        if let last = damagedEntries.last { try zone.forgetLog(through: last.revision) }
    }

    private static func damagedEntries(in db: Database) throws -> [DamagedEntry] {
        let rows = try Row.fetchCursor(
            db,
            sql: """
                SELECT \(LogEntry.columns) FROM tidemark_revision AS r \(LogEntry.previousEntry)
                WHERE r.revision > (SELECT horizon FROM tidemark_zone) ORDER BY r.revision
                """
        )
        var next = (try Int64.fetchOne(db, sql: "SELECT horizon FROM tidemark_zone") ?? 0) + 1
        var damaged: [Int64] = []
        while let row = try rows.next() {
            let entry = try LogEntry(row, in: db)
            damaged += Array(next..<max(next, entry.revision))
            if !entry.isAuthentic { damaged.append(entry.revision) }
            next = entry.revision + 1
        }
        let end = try ZoneTransaction.ends(in: db).zone
        if next <= end { damaged += Array(next...end) }
        return try damaged.map { revision in
            let tables = try String.fetchAll(
                db,
                sql: "SELECT DISTINCT tbl FROM tidemark_log WHERE revision = ? ORDER BY tbl",
                arguments: [revision]
            )
            return DamagedEntry(revision: revision, tables: tables)
        }
    }
}
