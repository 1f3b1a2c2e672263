import GRDB
public import TidemarkCore
import TidemarkSQL

/// Describes an ordinary SQLite file made from a zone's snapshot.
public struct PlainCopy: Sendable {
    /// The revision that the rows are at.
    public let revision: Int64
    /// How many rows there are.
    public let rows: Int
    /// The zone's conflict policies, by table or `table.column`.
    public let policies: [String: ConflictPolicy]
}

extension TakeSnapshot {
    /// Creates the zone's tables in a new file and fills them; throws if the rows do not match the fingerprint.
    func makePlain(zone: String) throws -> PlainCopy {
        try withAttachedSnapshot(zone: zone) { header in
            guard header.since == nil else { throw SnapshotCheck.unusable("it has not all rows.") }
            let schema = try SchemaText.decode(header.schema)
            try Transaction.withoutForeignKeys(db) {
                let tables = try JoinedTables(creating: schema, for: .copy, in: db)
                let objects = try DeviceObjects(
                    schema.objects, schema: schema, indexes: tables.indexes, as: .copy, in: db)
                try objects.requireOrdinaryTables()
                try objects.create(.beforeRows)
                try objects.setVersions(schema)
                for table in schema.tables { try SnapshotRows.copy(table, schema.difference, in: db) }
                let local = try tables.index()
                try SnapshotCheck.rows(of: local, in: db)
                try objects.create(.afterRows)
                try EngineConnection.prepare(db, schema: local)
                let computed = try RowFingerprints(db, schema: local).all()
                guard header.fingerprint == nil || header.fingerprint == computed.hex else {
                    throw SnapshotCheck.unusable("its rows are not those of its revision.")
                }
            }
            let rows = try schema.tables.reduce(0) { sum, table in
                let sql = "SELECT count(*) FROM \(SQLText.name(table.name))"
                return try sum + (Int.fetchOne(db, sql: sql) ?? 0)
            }
            return PlainCopy(revision: header.revision, rows: rows, policies: schema.policies)
        }
    }
}
