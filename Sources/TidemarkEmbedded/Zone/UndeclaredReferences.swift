package import GRDB
package import TidemarkCore
import TidemarkSQL

/// A column that seems to refer to a table, although it declares no foreign key.
///
/// Where a record gets another id, devices follow declared references only.
public struct UndeclaredReference: Hashable, Sendable {
    /// The table with the column.
    public let table: String
    /// The column.
    public let column: String
    /// The table whose keys the column has.
    public let parent: String
    /// The key of that table.
    public let parentKey: String

    /// The rows of a column that are compared with the keys.
    private static let rowsMax = 10_000

    /// Finds the columns whose name ends in `id` and whose values are all keys of exactly one table.
    package static func all(in schema: SyncSchema, _ db: Database) throws -> [UndeclaredReference] {
        let parents = schema.tables.filter { $0.keyKind == .integer && !$0.hasRowidKey }
        return try schema.tables.flatMap { table -> [UndeclaredReference] in
            let declared = Set(table.references.flatMap(\.columns))
            let columns = table.columns.map(\.name).filter { column in
                column.lowercased().hasSuffix("id") && !declared.contains(column) && table.key != [column]
            }
            return try columns.compactMap { column -> UndeclaredReference? in
                let matches = try parents.filter { try isKey(of: $0, column, of: table, db) }
                guard matches.count == 1 else { return nil }
                return UndeclaredReference(
                    table: table.name, column: column, parent: matches[0].name, parentKey: matches[0].key[0])
            }
        }
    }

    /// Whether a column has values, and all of them are keys of a table.
    private static func isKey(of parent: SyncedTable, _ column: String, of table: SyncedTable, _ db: Database) throws
        -> Bool
    {
        let name = SQLText.name(column)
        return try Bool.fetchOne(
            db,
            sql: """
                SELECT count(*) > 0 AND sum(typeof(value) <> 'integer' OR NOT EXISTS (
                    SELECT 1 FROM \(SQLText.name(parent.name)) AS parent
                    WHERE parent.\(SQLText.name(parent.key[0])) = value)) = 0
                FROM (
                    SELECT \(name) AS value FROM \(SQLText.name(table.name))
                    WHERE \(name) IS NOT NULL LIMIT \(rowsMax))
                """) ?? false
    }
}
