import GRDB
import TidemarkCore

/// Tidemark's own index on a table without a primary key.
///
/// - A declared key needs a unique index, unless the table has one.
/// - `VACUUM` numbers the rows of a table anew if the table has neither an `INTEGER PRIMARY KEY` nor an
///   index; with any index it copies the row numbers. So a table whose key is the rowid gets an index that
///   covers no row.
enum KeyIndex {
    static func install(_ table: SyncedTable, in db: Database) throws {
        guard table.traits?.key != nil else { return }
        if table.hasRowidKey { return try installRowidIndex(table, in: db) }
        let names = try String.fetchAll(
            db, sql: "SELECT name FROM pragma_index_list(?) WHERE \"unique\" AND NOT partial", arguments: [table.name])
        let hasIndex = try names.contains {
            let parts = try Row.fetchAll(
                db, sql: "SELECT name, coll FROM pragma_index_xinfo(?) WHERE key", arguments: [$0])
            let columns: [String?] = try parts.map { try $0.value("name") }
            return try Set(columns) == Set(table.key) && parts.allSatisfy { try $0.value("coll") == "BINARY" }
        }
        guard !hasIndex else { return }
        let columns = table.key.map { "\(SQLText.name($0)) COLLATE BINARY" }.joined(separator: ", ")
        try db.execute(sql: "CREATE UNIQUE INDEX \(name("key", table)) ON \(SQLText.name(table.name)) (\(columns))")
    }

    private static func installRowidIndex(_ table: SyncedTable, in db: Database) throws {
        guard let column = table.valueColumns.first else { return }
        try db.execute(
            sql: """
                CREATE INDEX IF NOT EXISTS \(name("rowid", table))
                ON \(SQLText.name(table.name)) (\(SQLText.name(column.name))) WHERE 0
                """)
    }

    private static func name(_ purpose: String, _ table: SyncedTable) -> String {
        SQLText.name("tidemark_\(purpose)_\(table.name)")
    }
}
