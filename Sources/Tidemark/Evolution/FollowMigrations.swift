import GRDB
import TidemarkCore
import TidemarkSQL

/// Takes the notes about migrations that a zone has made, and the file's own program has not.
///
/// The file has all columns of the zone. A framework that keeps one row replaces it: the file's row is replaced if it
/// is the one that the zone had. Otherwise the file's own program has gone on by itself.
struct FollowMigrations {
    let db: Database
    let schema: SyncSchema
    /// The tables as the zone had them before.
    let old: [FileObjects.MigrationTable]

    func follow(_ table: FileObjects.MigrationTable) throws {
        guard try MigrationTables.isLocal(table.name, schema, in: db) else { return }
        let columns = try Row.fetchAll(db, sql: "SELECT * FROM pragma_table_info(?)", arguments: [table.name])
        let names = try Self.identity(of: table.name, columns)
        guard !names.isEmpty else { return }
        let identify = { (row: String) in MigrationTables.members(of: row).filter { names.contains($0.key) } }
        let zoneNotes = Set(table.rows.map(identify))
        let removed = Set((old.first { $0.name == table.name }?.rows ?? []).map(identify)).subtracting(zoneNotes)
        let own = Set(try MigrationTables.rows(of: table.name, in: db).map(identify))
        guard own.isEmpty || !own.isDisjoint(with: removed.union(zoneNotes)) else { return }
        for row in removed {
            let matches = row.keys.map { "\(SQLText.name($0)) IS ?" }.joined(separator: " AND ")
            try db.execute(
                sql: "DELETE FROM main.\(SQLText.name(table.name)) WHERE \(matches)",
                arguments: StatementArguments(try row.values.map(CanonicalJSON.value)))
        }
        // Beside the file's own rows, a new one gets the file's next number.
        let number = try columns.first { try Self.isNumber($0) && !names.contains($0.value("name")) }
        for row in table.rows where !own.contains(identify(row)) {
            var values = MigrationTables.members(of: row)
            if removed.isEmpty, let number = try number?.value("name") as String? {
                let highest = "SELECT coalesce(max(\(SQLText.name(number))), 0) FROM main.\(SQLText.name(table.name))"
                values[number] = String(try Int64.fetchOne(db, sql: highest).map { $0 + 1 } ?? 1)
            }
            try MigrationTables.insert(values, into: table.name, in: db)
        }
    }

    /// Returns the columns by which rows of two files are the same: of an unknown framework its key, or else its texts.
    private static func identity(of table: String, _ columns: [Row]) throws -> Set<String> {
        let names = try columns.map { try $0.value("name") as String }
        let known = MigrationTables.identities[table.lowercased()]
        if let known { return Set(names.filter { known.contains($0.lowercased()) }) }
        let key = try columns.filter { try $0.value("pk") > 0 && !isNumber($0) }
        let texts = try columns.filter { try ($0.value("type") as String).firstMatch(of: /(?i)char|text|clob/) != nil }
        let chosen = key.isEmpty ? (texts.isEmpty ? columns : texts) : key
        return Set(try chosen.map { try $0.value("name") })
    }

    /// Whether the column is a key that numbers the rows.
    private static func isNumber(_ column: Row) throws -> Bool {
        try column.value("pk") > 0 && (column.value("type") as String).uppercased().contains("INT")
    }
}
