import GRDB
package import TidemarkCore
import TidemarkEngine
package import TidemarkSQL

/// Builds a snapshot file of a zone while writers continue.
///
/// It reads in one transaction, copies each table by one `INSERT ... SELECT` in key order, and
/// compresses the file. No row passes through Swift, so memory use does not grow with the zone.
package struct SnapshotBuilder {
    let zonePath: String
    let schema: SyncSchema
    /// The base of a delta; nil for all rows.
    let base: DeltaBase?

    package init(zonePath: String, schema: SyncSchema, since base: DeltaBase? = nil) {
        self.zonePath = zonePath
        self.schema = schema
        self.base = base
    }

    /// Builds the compressed snapshot at `path`; nil if other programs' changes have to be absorbed first.
    func build(at path: String) throws -> SnapshotFile? {
        let plain = path + ".sqlite"
        defer { removeIfThere(plain) }
        removeIfThere(plain)
        guard let header = try copy(to: plain) else { return nil }
        return try SnapshotFile.compressing(
            plain, at: path, epoch: header.epoch, revision: header.revision, since: header.since)
    }

    /// Copies the rows into a new SQLite file; nil if changes are not logged yet, or a delta is not worthwhile.
    package func copy(to plain: String) throws -> SnapshotFormat.Header? {
        try SnapshotFormat.make(at: plain) { db in
            ProgramFunctions.addStandIns(schema.objects, to: db)
            try db.execute(sql: "ATTACH ? AS zone", arguments: [zonePath])
        } fill: {
            try fill($0)
        }
    }

    private func fill(_ db: Database) throws -> SnapshotFormat.Header? {
        guard try Int.fetchOne(db, sql: "SELECT count(*) FROM zone.tidemark_capture") == 0,
            let zone = try Row.fetchOne(db, sql: "SELECT * FROM zone.tidemark_zone")
        else { return nil }
        if let base, try !DeltaRows(db: db, schema: schema).list(since: base, in: zone) { return nil }
        let header = SnapshotFormat.Header(
            zone: try zone.value("name"),
            epoch: try zone.value("epoch"),
            revision: try zone.value("revision") as Int64 - (planted(PlantedBug.datesSnapshotBack) ? 1 : 0),
            schema: try SchemaText.encode(schema),
            fingerprint: try String.fetchOne(
                db, sql: "SELECT fingerprint FROM zone.tidemark_fingerprint WHERE revision = ? AND shape = ?",
                arguments: try [zone.value("revision") as Int64, schema.fingerprintLayout]),
            since: base?.revision,
            time: try zone.value("time"))
        try SnapshotFormat.write(header, in: db)
        for table in schema.tables { try copy(table, in: db) }
        return header
    }

    private func copy(_ table: SyncedTable, in db: Database) throws {
        let name = SQLText.name(table.name)
        let columns = SQLText.names(table.columns.map(\.name))
        try db.execute(sql: "CREATE TABLE main.\(name) (\(columns))")
        if base != nil { return try DeltaRows(db: db, schema: schema).copy(table) }
        try db.execute(
            sql: """
                INSERT INTO main.\(name) (\(columns))
                SELECT \(columns) FROM zone.\(name) ORDER BY \(SQLText.names(table.key))
                """)
    }
}
