import GRDB
import TidemarkCore
import TidemarkServer
import TidemarkSQLite
import TidemarkStore

/// Rows found by keys in canonical JSON, many at once.
enum KeySet {
    /// A derived table `k` of a JSON array of keys.
    static func keys(_ parameter: Int) -> String { "jsonb_array_elements_text($\(parameter)::jsonb) AS k (key)" }

    /// The condition under which a row has a key of `k`, in that spelling.
    static func match(_ table: PostgresTable, _ alias: String, key: String = "k.key") -> String {
        var parts = table.table.key.indices.map { index in
            let column = table.table.key[index]
            return "\(table.column(column, alias)) = \(part(table, index, key))"
        }
        if table.table.keyKind != .integer { parts.append("\(table.keyJSON(alias)) = \(key)") }
        return ([table.inZone(alias)] + parts).joined(separator: " AND ")
    }

    /// The value of one key column.
    private static func part(_ table: PostgresTable, _ index: Int, _ key: String) -> String {
        let column = table.table.key[index]
        if table.table.keyKind == .integer { return "\(key)::bigint" }
        let json = table.table.key.count == 1 ? "\(key)::jsonb" : "(\(key)::jsonb -> \(index))"
        return switch table.kind(column) {
        case .bytes: "decode(\(json) ->> '$blob', 'base64')"
        case .real: "coalesce(\(json) ->> '$real', \(json) #>> '{}')::double precision"
        case .boolean: "(\(json) #>> '{}')::int::boolean"
        default: "(\(json) #>> '{}')::\(table.wholeType(column))"
        }
    }
}
