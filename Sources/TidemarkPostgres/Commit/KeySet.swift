import TidemarkCore
import TidemarkSQL

/// Many records at once, by their keys.
enum KeySet {
    /// A derived table `wanted` of an array of keys in canonical JSON.
    static func keys(_ parameter: Int) -> String { "unnest($\(parameter)::text[]) AS wanted (key)" }

    /// The condition that a row has a key in canonical JSON, in that exact spelling.
    static func match(_ table: PostgresTable, _ alias: String, key: String = "wanted.key") -> String {
        var parts = table.table.key.indices.map { index in
            let column = table.table.key[index]
            return "\(table.column(column, alias)) = \(part(table, index: index, key: key))"
        }
        if table.table.keyKind != .integer { parts.append("\(table.keyJSON(alias)) = \(key)") }
        return ([table.inZone(alias)] + parts).joined(separator: " AND ")
    }

    /// The value of one key column, cast to its type.
    private static func part(_ table: PostgresTable, index: Int, key: String) -> String {
        let column = table.table.key[index]
        if table.table.keyKind == .integer { return "\(key)::bigint" }
        let json = table.table.key.count == 1 ? "\(key)::jsonb" : "(\(key)::jsonb -> \(index))"
        return switch table.kind(column) {
        case .bytes: "decode(\(json) ->> '$blob', 'base64')"
        case .real: "coalesce(\(json) ->> '$real', \(json) #>> '{}')::double precision"
        case .boolean: "(\(json) #>> '{}')::int::boolean"
        case .number: "replace(\(json) #>> '{}', '::numeric', '')::\(table.wholeType(column))"
        case .microseconds:
            """
            ((\(json) #>> '{}') || CASE jsonb_typeof(\(json)) WHEN 'number' THEN ' microseconds' ELSE '' END)::interval
            """
        default: "(\(json) #>> '{}')::\(table.wholeType(column))"
        }
    }
}
