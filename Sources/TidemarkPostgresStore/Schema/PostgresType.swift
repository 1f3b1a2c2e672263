import Foundation
import TidemarkCore

/// How a column's values are kept in PostgreSQL, and how they look on a device.
///
/// | PostgreSQL | on a device | JSON |
/// | --- | --- | --- |
/// | `smallint`, `integer`, `bigint` | INTEGER | digits |
/// | `real`, `double precision` | REAL | shortest digits that read back the same; NaN is `null` |
/// | `boolean` | BOOLEAN | 0 or 1 |
/// | `bytea` | BLOB | `{"$blob":...}` |
/// | `text`, `varchar`, `char` | TEXT | string |
/// | all others: `numeric`, `uuid`, dates, times, `json`, `jsonb`, enums, arrays | TEXT |
/// PostgreSQL's own text, dates in ISO 8601 and UTC |
package enum PostgresType: String, Hashable, Sendable, Codable {
    case integer
    case real
    case boolean
    case bytes
    /// Any type whose text is its value.
    case text
    /// A text column that a schema in SQLite's words declares as DATE, UUID or the like: a text
    /// that looks like a number is one there.
    case mixed

    /// The kind of a type that PostgreSQL names so.
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

    /// The kind of a column of a type with its length or precision, such as `numeric(10,2)`.
    init(column type: String) {
        let base = type.prefix { $0 != "(" }
        self.init(named: String(base.reversed().drop { $0 == " " }.reversed()))
    }

    /// A column's value as canonical JSON, which compares by its bytes whatever the column's
    /// collation is.
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

    /// The type in which a device, or a schema in SQLite's words, declares the column.
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

/// The type in PostgreSQL for a column that a schema in SQLite's words declares.
struct DeclaredType {
    /// PostgreSQL's name.
    let name: String
    let kind: PostgresType

    /// By SQLite's rules of affinity; nil where a column may hold anything, which PostgreSQL has no
    /// type for.
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
            // SQLite keeps what the app writes, ISO 8601 or another text.
            name = "text"
            kind = .text
        } else {
            return nil
        }
    }
}
