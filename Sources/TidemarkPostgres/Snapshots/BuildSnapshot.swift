import Foundation
import GRDB
import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// Builds a snapshot file of a zone as of one moment, in key order; writers go on, and rows travel in JSON batches.
struct BuildSnapshot {
    let pg: PostgresConnection
    let served: PostgresSchema
    let zone: String
    /// With a base, the file has only the rows that changed after it; nil for all rows.
    var base: DeltaBase?

    private static let batchSize = 2_000

    /// Builds the snapshot, compressed; nil if changes wait to be absorbed, tables were altered, or a full one is best.
    func build(at path: String) throws -> SnapshotFile? {
        let plain = path + ".sqlite"
        defer { removeIfThere(plain) }
        guard let header = try copy(to: plain) else { return nil }
        return try SnapshotFile.compressing(
            plain, at: path, epoch: header.epoch, revision: header.revision, since: header.since)
    }

    /// Computes the content hash of every table, with a temporary file at `path`.
    func digest(at path: String) throws -> ZoneDigest? {
        guard let header = try copy(to: path) else { return nil }
        return try DatabaseQueue(path: path).write { db in
            try Digest.compute(db, schema: served.schema, zone: zone, revision: header.revision)
        }
    }

    private func copy(to plain: String) throws -> SnapshotFormat.Header? {
        removeIfThere(plain)
        return try pg.transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") {
            try SnapshotFormat.make(at: plain, prepare: EngineConnection.addFunctions, fill: fill)
        }
    }

    private func fill(_ db: Database) throws -> SnapshotFormat.Header? {
        let rows = try pg.query(
            """
            SELECT zone.epoch, zone.revision, fingerprint.fingerprint,
                EXISTS (SELECT 1 FROM tidemark.outside AS outside WHERE outside.zone = $1),
                (SELECT version FROM tidemark.served), zone.horizon, zone.time
            FROM tidemark.zone AS zone
            LEFT JOIN tidemark.fingerprint AS fingerprint
                ON fingerprint.zone = $1 AND fingerprint.revision = zone.revision AND fingerprint.shape = $2
            WHERE zone.zone = $1
            """,
            [zone, served.schema.fingerprintLayout])
        guard !rows.isEmpty else { throw TidemarkError.unknownZone }
        guard !rows[0].isTrue(3), rows[0].integer(4) == served.position.version else { return nil }
        if let base {
            let isPossible = DeltaChoice.isPossible(
                since: base, epoch: rows[0].text(0), horizon: rows[0].integer(5) ?? 0, revision: rows[0].integer(1) ?? 0
            )
            let delta = DeltaRows(pg: pg, served: served, zone: zone, base: base)
            guard isPossible, try delta.isWorthwhile() else { return nil }
        }
        let header = SnapshotFormat.Header(
            zone: zone, epoch: rows[0].text(0), revision: rows[0].integer(1) ?? 0, schema: served.text,
            fingerprint: rows[0][2], since: base?.revision, time: rows[0].integer(6))
        try SnapshotFormat.write(header, in: db)
        for table in served.schema.tables {
            guard let stored = served.tables[table.name] else { continue }
            try copy(stored, in: db)
        }
        return header
    }

    private func copy(_ table: PostgresTable, in db: Database) throws {
        let columns = table.table.columns.map(\.name)
        let name = SQLText.name(table.table.name)
        let list = SQLText.names(columns)
        try db.execute(sql: "CREATE TABLE main.\(name) (\(list))")
        let values = columns.map { table.kind($0).json(table.column($0, "app_row")) }
        let delta = base.map { DeltaRows(pg: pg, served: served, zone: zone, base: $0) }
        let rows = delta?.isChanged(table, "app_row") ?? table.inZone("app_row")
        let order = table.table.key.map { column in
            let isText = ![.integer, .real, .boolean, .bytes].contains(table.kind(column))
            let collation = isText ? "::text COLLATE \"C\"" : ""
            return table.column(column, "app_row") + collation
        }
        let declaration = """
            DECLARE rows NO SCROLL CURSOR FOR
            SELECT '[' || \(values.joined(separator: " || ',' || ")) || ']'
            FROM \(table.name) AS app_row
            WHERE \(rows.replacingOccurrences(of: "$1", with: SQLText.literal(zone)))
            ORDER BY \(order.joined(separator: ", "))
            """
        try pg.scanning { try pg.execute(declaration) }
        let decodedValues = columns.indices.map { "tidemark_decode(value -> \($0))" }
        while true {
            let rows = try pg.rows("FETCH \(Self.batchSize) FROM rows")
            guard !rows.isEmpty else { break }
            try db.cachedStatement(
                sql: """
                    INSERT INTO main.\(name) (\(list))
                    SELECT \(decodedValues.joined(separator: ", "))
                    FROM json_each(?)
                    """
            ).execute(arguments: ["[\(rows.map { $0.text(0) }.joined(separator: ","))]"])
        }
        try pg.execute("CLOSE rows")
        guard let deletedKeys = try delta?.deletedKeys(of: table) else { return }
        try db.execute(
            sql: """
                INSERT INTO main.\(SnapshotFormat.deletedTable) (tbl, key)
                SELECT ?, value FROM json_each(?)
                """,
            arguments: [table.table.name, deletedKeys])
    }
}

actor ZoneSnapshots {
    private let folder: String
    /// One claim for all zones, because each claim keeps a file open.
    private let claim: SnapshotClaim
    private let now: @Sendable () -> Int64
    private var caches: [String: SnapshotCache] = [:]

    init(folder: String, now: @escaping @Sendable () -> Int64) {
        self.folder = folder
        self.now = now
        claim = SnapshotClaim(folder: folder)
    }

    func cache(of zone: String) -> SnapshotCache {
        if let cache = caches[zone] { return cache }
        // A zone's name may have characters that a file's name may not.
        let cache = SnapshotCache(
            besides: "\(folder)/tidemark-\(ContentHash.of(zone).prefix(16))", claim: claim, now: now)
        caches[zone] = cache
        return cache
    }

    func snapshot(zone: String, tag: String) async -> SnapshotFile? { await caches[zone]?.snapshot(tag: tag) }

    func release(_ file: SnapshotFile) async { for cache in caches.values { await cache.release(file) } }

    func clear() async {
        for cache in caches.values { await cache.clear() }
        caches.removeAll()
    }
}
