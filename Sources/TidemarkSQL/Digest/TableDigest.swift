import Crypto
import Foundation
package import GRDB
package import TidemarkCore

/// The canonical content hash of tables, computed from their rows.
///
/// A row is hashed as `key TAB object LF`, both in canonical JSON; rows are ordered by the bytes of the key. So the
/// digests of two files agree exactly if their rows do. Page layout, insertion order and SQLite version do not matter.
package enum Digest {
    /// Computes the digest of a file's synced tables; `zone` and `revision` only label the result.
    package static func compute(_ db: Database, schema: SyncSchema, zone: String, revision: Int64) throws -> ZoneDigest
    {
        try EngineConnection.prepare(db, schema: schema)
        let tables = try schema.tables.sorted { $0.name < $1.name }.map { try digest($0, in: db) }
        var total = SHA256()
        for table in tables { total.update(data: "\(table.table)\t\(table.hash)\n".utf8.map { $0 }) }
        return ZoneDigest(zone: zone, revision: revision, tables: tables, hash: RunningHash.hex(total.finalize()))
    }

    private static func digest(_ table: SyncedTable, in db: Database) throws -> ZoneDigest.Table {
        let columns = table.valueColumns.map(\.name).sorted()
        let order = table.keyKind == .integer ? SQLText.name(table.key[0]) : "1 COLLATE BINARY"
        let rows = try Row.fetchCursor(
            db,
            sql: """
                SELECT \(RowJSON.key(table)) AS key, \(RowJSON.object(columns)) AS object
                FROM main.\(SQLText.name(table.name))
                ORDER BY \(order)
                """)
        var hash = SHA256()
        var count = 0
        while let row = try rows.next() {
            let key: String = try row.value(0)
            let object: String = try row.value(1)
            hash.update(data: Array("\(key)\t\(object)\n".utf8))
            count += 1
        }
        return ZoneDigest.Table(table: table.name, rows: count, hash: RunningHash.hex(hash.finalize()))
    }
}
