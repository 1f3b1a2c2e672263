import GRDB
import TidemarkCore

/// Finds the key of a table without a primary key.
///
/// In this order: the key that the zone keeps for the table, unique columns that are never NULL, and the
/// rowid. The choice depends on the table alone, so that a device and the server agree.
struct FindKey {
    let db: Database
    let table: String
    let columns: [SyncedTable.Column]
    /// The names of all columns in lower case, generated ones included.
    let allNames: Set<String>

    /// Returns the key; empty if there is none.
    func key(declared: [String]?) throws -> [String] {
        if let declared { return isUsable(declared) ? declared : [] }
        return try uniqueColumns() ?? rowid.map { [$0] } ?? []
    }

    /// The name of the rowid; nil if columns have all of its names.
    private var rowid: String? { SyncedTable.rowidNames.first { !allNames.contains($0) } }

    func isRowid(_ key: [String]) -> Bool { key.count == 1 && key.first == rowid }

    private func isUsable(_ key: [String]) -> Bool {
        let names = Set(columns.map(\.name))
        return !key.isEmpty && (isRowid(key) || names.isSuperset(of: key) && Set(key).count == key.count)
    }

    /// Returns the columns of the unique index with the fewest columns; equal ones are ordered by name.
    ///
    /// NULL values of an index are all different, and under a collation two texts may be equal. So its columns
    /// are NOT NULL, and it compares by bytes.
    private func uniqueColumns() throws -> [String]? {
        let indexes = try String.fetchAll(
            db, sql: "SELECT name FROM pragma_index_list(?) WHERE \"unique\" AND NOT partial ORDER BY name",
            arguments: [table])
        let required = Set(columns.filter(\.isNotNull).map(\.name))
        let candidates = try indexes.compactMap { index -> [String]? in
            let parts = try Row.fetchAll(
                db, sql: "SELECT name, coll FROM pragma_index_xinfo(?) WHERE key ORDER BY seqno", arguments: [index])
            let names: [String] = try parts.compactMap { try $0.value("coll") == "BINARY" ? $0.value("name") : nil }
            return names.count == parts.count && required.isSuperset(of: names) ? names : nil
        }
        return candidates.min { ($0.count, $0.joined(separator: "\0")) < ($1.count, $1.joined(separator: "\0")) }
    }
}
