import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// The SQL of SQLite for questions about rows of one table.
struct FileDialect: RowDialect {
    /// The listed table's alias, as it stands before a column.
    static let alias = "app_row."

    let table: SyncedTable

    func value(_ json: String, of column: SyncedTable.Column, at index: Int) -> BoundSQL {
        BoundSQL("tidemark_decode(?\(index + 1))", json)
    }

    func operand(_ column: SyncedTable.Column) -> String {
        let name = Self.alias + SQLText.name(column.name)
        return column.affinity == "TEXT" || column.affinity == "BLOB" ? "\(name) COLLATE BINARY" : name
    }

    func isOneOf(_ column: SyncedTable.Column, _ values: [String]) -> String {
        "\(operand(column)) IN (\(values.joined(separator: ", ")))"
    }

    /// SQLite's `GLOB` would take a step for each byte of the value and of the pattern, and could not be stopped.
    func like(_ column: SyncedTable.Column, _ pattern: String, at index: Int) -> BoundSQL {
        BoundSQL("tidemark_like(\(operand(column)), ?\(index + 1))", pattern)
    }

    func mayBeNull(_ column: SyncedTable.Column) -> Bool { !column.isNotNull && !table.key.contains(column.name) }

    var readsNullApart: Bool { false }

    func direction(of column: SyncedTable.Column, isDescending: Bool, isUniform: Bool) -> String {
        isDescending ? " DESC" : ""
    }

    func json(_ column: SyncedTable.Column, charactersMax: Int?) -> String {
        // ``FileReader`` renders a whole value, without a function's call for each.
        let name = Self.alias + SQLText.name(column.name)
        return charactersMax.map { "tidemark_cut(\(name), \($0))" } ?? name
    }

    var keyJSON: String { RowJSON.key(table, alias: Self.alias) }

    var revision: String {
        """
        coalesce(
            (SELECT max(log_entry.revision) FROM main.tidemark_log AS log_entry
                WHERE log_entry.tbl = \(SQLText.literal(table.name)) AND log_entry.key = \(keyJSON)),
            (SELECT adopted FROM main.tidemark_zone))
        """
    }

    var from: String { "main.\(SQLText.name(table.name)) AS app_row" }

    var scope: String? { nil }

    func from(keys: [String], at index: Int) -> BoundSQL {
        let match = KeySQL.match(table, key: "wanted.value", alias: Self.alias, isExact: false)
        return BoundSQL(
            "json_each(?\(index + 1)) AS wanted CROSS JOIN \(from) ON \(match)",
            JSONText.array(keys.map { JSONText.quote($0) })
        )
    }

    func statement(_ selection: RowSelection) -> String {
        let order = selection.order.isEmpty ? "" : "\nORDER BY \(selection.order.joined(separator: ", "))"
        // The last parameter, so that pages of any size have the same statement.
        let limit = selection.limit == nil ? "" : "\nLIMIT ?"
        return "SELECT \(selection.cells.joined(separator: ", "))\nFROM \(selection.source)\(order)\(limit)"
    }

    /// The statement that makes the index with which a question is cheap.
    func index(for query: RowQuery) -> String {
        let columns = query.indexColumns.map(\.name)
        let name = SQLText.name("\(table.name)_\(columns[0])")
        return "CREATE INDEX \(name) ON \(SQLText.name(table.name)) (\(SQLText.names(columns)));"
    }
}
