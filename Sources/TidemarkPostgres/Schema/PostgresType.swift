import Foundation
import TidemarkCore

/// The kind of a column's type: its values in PostgreSQL, on a device and in JSON.
///
/// | PostgreSQL | on a device | JSON |
/// | --- | --- | --- |
/// | `smallint`, `integer`, `bigint` | INTEGER | digits |
/// | `real`, `double precision` | REAL | shortest digits that read back the same; NaN is `null` |
/// | `boolean` | BOOLEAN | 0 or 1 |
/// | `bytea` | BLOB | `{"$blob":...}` |
/// | `text`, `varchar`, `char` | TEXT | string |
/// | all others: `numeric`, `uuid`, dates, `json`, enums, arrays | TEXT | PostgreSQL's text, dates in ISO 8601, UTC |
package enum PostgresType: String, Hashable, Sendable, Codable {
    case integer
    case real
    case boolean
    case bytes
    /// Any type that devices store as its text.
    case text
    /// A text column with NUMERIC affinity in SQLite, where a text that looks like a number is one.
    case mixed

    /// Finds the kind of a type by PostgreSQL's name.
    init(named name: String) {
        self =
            switch name {
            case "smallint", "integer", "bigint": .integer
            case "real", "double precision": .real
            case "boolean": .boolean
            case "bytea": .bytes
            default: .text
            }
    }

    /// Finds the kind of a type with length or precision, such as `numeric(10,2)`.
    init(column type: String) {
        let base = type.prefix { $0 != "(" }
        self.init(named: String(base.reversed().drop { $0 == " " }.reversed()))
    }

    /// A column's value as canonical JSON, which compares by bytes for any collation.
    func json(_ expression: String) -> String {
        switch self {
        case .integer: "coalesce((\(expression))::text, 'null')"
        case .real: "tidemark.real(\(expression))"
        case .boolean: "coalesce((\(expression))::int::text, 'null')"
        case .bytes: "tidemark.bytes(\(expression))"
        case .text: "tidemark.quote((\(expression))::text COLLATE \"C\")"
        case .mixed: "tidemark.mixed((\(expression))::text COLLATE \"C\")"
        }
    }

    /// The column's type on a device.
    var deviceType: String {
        switch self {
        case .integer: "INTEGER"
        case .real: "REAL"
        case .boolean: "BOOLEAN"
        case .bytes: "BLOB"
        case .text: "TEXT"
        case .mixed: "NUMERIC"
        }
    }
}

/// The PostgreSQL type for a column that a schema in SQLite's dialect declares.
struct DeclaredType {
    /// PostgreSQL's name.
    let name: String
    let kind: PostgresType

    /// Applies SQLite's affinity rules; nil for a column of any type, which PostgreSQL lacks.
    init?(_ declared: String) {
        let type = declared.uppercased()
        func has(_ parts: String...) -> Bool { parts.contains(where: type.contains) }
        if has("INT") {
            name = "bigint"
            kind = .integer
        } else if has("CHAR", "CLOB", "TEXT") {
            name = "text"
            kind = .text
        } else if has("BLOB") {
            name = "bytea"
            kind = .bytes
        } else if has("REAL", "FLOA", "DOUB") {
            name = "double precision"
            kind = .real
        } else if has("BOOL") {
            name = "boolean"
            kind = .boolean
        } else if has("DATE", "TIME", "UUID", "JSON") {
            // SQLite stores the app's text unchanged, ISO 8601 or another format.
            name = "text"
            kind = .text
        } else {
            return nil
        }
    }
}
