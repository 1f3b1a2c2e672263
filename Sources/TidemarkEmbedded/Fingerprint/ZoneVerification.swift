import GRDB
public import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// A check of a zone's rows and log against the fingerprint and hashes of its commits.
public struct ZoneVerification: Sendable {
    /// A log entry that is missing or differs from the committed one.
    public struct DamagedEntry: Hashable, Sendable, Encodable {
        /// The entry's revision.
        public let revision: Int64
        /// The tables that the revision changed, if the log still names them.
        public let tables: [String]
    }

    /// The zone's latest revision.
    public let revision: Int64
    /// The latest revision in the log; later than the zone's only if the file is damaged.
    public let logEnd: Int64
    /// The log entries that the server cannot send to devices.
    public let damagedEntries: [DamagedEntry]
    /// The fingerprint that the commits maintained; nil if no request has needed one yet.
    public let expected: Fingerprint?
    /// The fingerprint of the rows.
    public let computed: Fingerprint

    /// Recomputes the fingerprint of a zone's rows and the hashes of its log.
    ///
    /// The rows prevail, even if they differ from the commits. The check stores their fingerprint,
    /// so devices notice the difference at their next sync and repair their rows.
    ///
    /// - Parameters:
    ///   - path: The zone's file; a server may serve it meanwhile.
    ///   - repairing: Whether to delete a damaged log, so that devices behind it take a snapshot. A
    ///     zone that is behind its log continues from the log's end.
    /// - Throws: ``TidemarkCore/TidemarkError`` if the file is no zone, or `DatabaseError`.
    public init(path: String, repairing: Bool) throws {
        var configuration = Configuration.waiting()
        configuration.prepareDatabase { ProgramFunctions.addStandIns(declaredIn: $0) }
        let file = try DatabaseQueue(path: path, configuration: configuration)
        self = try file.writeWithoutTransaction { db in
            var verification: ZoneVerification?
            try db.inTransaction(.immediate) {
                verification = try ZoneVerification(db, repairing: repairing)
                return .commit
            }
            guard let verification else {
                throw TidemarkError(
                    .internalFailure, "A transaction ended without a result.", fix: "Please report this.")
            }
            return verification
        }
    }

    private init(_ db: Database, repairing: Bool) throws {
        try ZoneTables.areMade(in: db)
        let localTables = try SchemaIntrospection.localTables(in: db)
        let schema = try SchemaIntrospection(db, excluding: localTables).makeSchema()
        try EngineConnection.addFunctions(to: db)
        ProgramFunctions.addStandIns(schema.objects, to: db)
        // No step of the check uses the clock.
        let zone = try ZoneTransaction(db, schema: schema, now: 0)
        (revision, logEnd) = try ZoneTransaction.ends(in: db)
        damagedEntries = try Self.damagedEntries(in: db)
        expected = try zone.storedFingerprint(at: revision)
        let rows = RowFingerprints(db, schema: schema)
        // The stored fingerprint does not cover other programs' changes that are not logged yet.
        var effects = RevisionEffects(revision: revision, schema)
        try CapturedEffects(db, schema: schema).read { effects.take($0) }
        computed = try rows.all() - effects.difference
        if repairing || expected != nil && expected != computed {
            try zone.keep(computed, at: max(revision, repairing ? logEnd : 0))
        }
        guard repairing else { return }
        if revision < logEnd { try db.execute(sql: "UPDATE tidemark_zone SET revision = ?", arguments: [logEnd]) }
        if let last = damagedEntries.last { try zone.forgetLog(through: last.revision) }
    }

    /// The number of revisions that are read at once.
    private static let pageSize: Int64.Stride = 64

    private static func damagedEntries(in db: Database) throws -> [DamagedEntry] {
        let books = FileConnection(db)
        var next = (try Int64.fetchOne(db, sql: "SELECT horizon FROM tidemark_zone") ?? 0) + 1
        let last = try Int64.fetchOne(db, sql: "SELECT max(revision) FROM tidemark_revision") ?? 0
        var damagedRevisions: [Int64] = []
        for start in stride(from: next, through: last, by: pageSize) {
            for entry in try books.logged(start...min(last, start + Int64(pageSize) - 1)) {
                damagedRevisions += Array(next..<max(next, entry.revision))
                if !entry.isAuthentic { damagedRevisions.append(entry.revision) }
                next = entry.revision + 1
            }
        }
        let end = try ZoneTransaction.ends(in: db).zone
        if next <= end { damagedRevisions += Array(next...end) }
        return try damagedRevisions.map { revision in
            let tables = try String.fetchAll(
                db, sql: "SELECT DISTINCT tbl FROM tidemark_log WHERE revision = ? ORDER BY tbl", arguments: [revision])
            return DamagedEntry(revision: revision, tables: tables)
        }
    }
}
