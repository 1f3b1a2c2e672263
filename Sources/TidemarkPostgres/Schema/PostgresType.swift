import Foundation
import TidemarkCore

/// The kind of a column: how its values look in PostgreSQL, on a device and in JSON.
///
/// The column's type in PostgreSQL and its declared type on devices determine the kind. Each kind is
/// a mapping in both directions. ``json(_:)`` gives PostgreSQL's value its form on devices, in SQL.
/// ``PostgresText`` converts a device's value to a text that PostgreSQL casts to the column's type.
package enum PostgresType: String, Hashable, Sendable, Codable {
    case integer
    case real
    case boolean
    case bytes
    /// Any type that devices store as its text.
    case text
    /// A text column with NUMERIC affinity in SQLite, where a text that looks like a number is one.
    case mixed
    /// `numeric` as a number; a value that no number holds exactly is text, as `123.45::numeric`.
    case number
    /// `inet` as PostgreSQL prints it, without the mask of a single host.
    case address
    /// `interval` as its text; a bare number is refused, because its unit is unknown.
    case interval
    /// `interval` as a number of microseconds; one with months is text.
    case microseconds
    /// `uuid` as 32 hexadecimal digits.
    case hexadecimal
    /// `timestamp`, `timestamptz` or `time` in UTC, with no fraction or one of six digits.
    case moment
    /// `timestamp`, `timestamptz` or `time` in UTC, with a fraction of six digits.
    case longMoment

    /// Finds the kind of a column by its type in PostgreSQL and its declared type on devices.
    init(column type: String, declared: String) {
        let affinity = SyncedTable.Column(name: "", type: declared, isNotNull: false, defaultSQL: nil).affinity
        let declared = declared.uppercased()
        self =
            switch (Self.baseName(type), affinity) {
            case ("smallint", _), ("integer", _), ("bigint", _): .integer
            case ("real", _), ("double precision", _): .real
            case ("boolean", _): .boolean
            case ("bytea", _): .bytes
            case ("numeric", "NUMERIC"): .number
            case ("interval", "INTEGER"): .microseconds
            case ("interval", _): .interval
            case ("inet", _) where declared == "CHAR(43)": .address
            case ("uuid", _) where declared == "CHAR(32)": .hexadecimal
            case (let name, "NUMERIC") where Self.moments.contains(name):
                declared.hasSuffix("(6)") ? .longMoment : .moment
            case (_, "NUMERIC"): .mixed
            default: .text
            }
    }

    /// Finds the kind of a type with length or precision, such as `varchar(10)`, on devices by default.
    init(column type: String) { self.init(column: type, declared: "TEXT") }

    /// The types of moments that devices may store without a zone.
    static let moments = ["timestamp with time zone", "timestamp without time zone", "time without time zone"]

    /// A type's name without length and precision: `timestamp with time zone` of `timestamp(3) with time zone`.
    static func baseName(_ type: String) -> String {
        guard let open = type.firstIndex(of: "("), let close = type.firstIndex(of: ")") else { return type }
        let before = type[..<open].reversed().drop { $0 == " " }.reversed()
        return String(before) + type[type.index(after: close)...]
    }

    /// A column's value as canonical JSON, which compares by bytes for any collation.
    func json(_ expression: String) -> String {
        switch self {
        case .integer: "coalesce((\(expression))::text, 'null')"
        case .real: "tidemark.real(\(expression))"
        case .boolean: "coalesce((\(expression))::int::text, 'null')"
        case .bytes: "tidemark.bytes(\(expression))"
        case .mixed: "tidemark.mixed((\(expression))::text COLLATE \"C\")"
        case .number: "tidemark.number(\(expression))"
        case .microseconds: "tidemark.microseconds(\(expression))"
        case .text, .interval, .address, .hexadecimal, .moment, .longMoment: "tidemark.quote(\(text(expression)))"
        }
    }

    /// A column's value as the text that a device stores, or as a device spells its number; by bytes.
    func text(_ expression: String) -> String {
        let text =
            switch self {
            case .integer, .bytes, .text, .interval, .mixed: "(\(expression))::text"
            case .real, .number, .microseconds: "btrim(nullif(\(json(expression)), 'null'), '\"')"
            case .boolean: "(\(expression))::int::text"
            case .address: "CASE WHEN (\(expression)) IS NOT NULL THEN format('%s', \(expression)) END"
            case .hexadecimal: "replace((\(expression))::text, '-', '')"
            case .moment: "tidemark.moment(\(expression), false)"
            case .longMoment: "tidemark.moment(\(expression), true)"
            }
        return self == .address ? "(\(text)) COLLATE \"C\"" : "\(text) COLLATE \"C\""
    }
}

/// The PostgreSQL type for a column that a schema in SQLite's dialect declares.
struct DeclaredType {
    let name: String
    let kind: PostgresType

    /// SQLite stores the app's dates, UUIDs and JSON as they are: text of ISO 8601 or another format.
    private static let rules: [(parts: [String], name: String, kind: PostgresType)] = [
        (["INT"], "bigint", .integer), (["CHAR", "CLOB", "TEXT"], "text", .text), (["BLOB"], "bytea", .bytes),
        (["REAL", "FLOA", "DOUB"], "double precision", .real), (["BOOL"], "boolean", .boolean),
        (["DATE", "TIME", "UUID", "JSON"], "text", .text),
    ]

    /// Applies SQLite's affinity rules; nil for a column of any type, which PostgreSQL lacks.
    init?(_ declared: String) {
        let type = declared.uppercased()
        guard let rule = Self.rules.first(where: { $0.parts.contains(where: type.contains) }) else { return nil }
        name = rule.name
        kind = rule.kind
    }
}
