import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// Temporary values of unique columns while records exchange their values.
extension PostgresTransaction {
    /// An expression that fits the column's type and equals no other record's value.
    ///
    /// `number` is an expression with a different value for each record. For an unknown type the value is a text, which
    /// PostgreSQL refuses. A referenced column gets no NULL, because a reference that follows it to NULL would not come
    /// back.
    func parkedValue(_ table: PostgresTable, _ column: SyncedTable.Column, number: String) -> String {
        let isReferenced = schema.references(to: table.table.name).contains {
            $0.reference.parentColumns.contains(column.name)
        }
        guard column.isNotNull || isReferenced else { return "NULL" }
        guard table.kind(column.name) != .boolean else { return table.column(column.name, "app_row") }
        return Self.parkedValue(table.type(column.name), number)
    }

    private static func parkedValue(_ type: String, _ number: String) -> String {
        if type.hasSuffix("[]") { return "ARRAY[\(parkedValue(String(type.dropLast(2)), number))]" }
        if let bound = rangeBounds[type] { return "\(type)(\(parkedValue(bound, number)), NULL)" }
        return switch PostgresType(column: type) {
        case .integer: "(-\(type == "smallint" ? "30000" : "2000000000") - \(number))::\(type)"
        case .real: "(-9007199254740992 + \(number))::\(type)"
        case .bytes: "convert_to('tidemark parked ' || \(number), 'UTF8')"
        default: parkedText(type, number)
        }
    }

    /// The bound types of PostgreSQL's built-in range types.
    private static let rangeBounds = [
        "int4range": "integer", "int8range": "bigint", "numrange": "numeric", "daterange": "date",
        "tsrange": "timestamp without time zone", "tstzrange": "timestamp with time zone",
    ]

    private static func parkedText(_ type: String, _ number: String) -> String {
        let text = "'tidemark parked ' || \(number)"
        let base = type.prefix { $0 != "(" }
        let sizes = type.split(separator: "(").dropFirst().first?.prefix { $0 != ")" }.split(separator: ",").compactMap
        { Int($0) }
        switch base {
        case "uuid", "jsonb": return base == "uuid" ? "md5(\(text))::uuid" : "to_jsonb(\(text))"
        case "date": return "('4713-01-01 BC'::date + \(number)::int)"
        case "timestamp", "timestamp with time zone", "timestamp without time zone":
            return "('4713-01-01 00:00:00 BC'::\(type) + \(number) * interval '1 second')"
        case "time", "time without time zone", "time with time zone":
            // Any time may be in use; this fraction of a second is unlikely.
            return "('23:59:59.999983'::\(type) - \(number) * interval '1.000003 seconds')"
        case "inet", "cidr": return "('100::'::inet + \(number))::\(type)"
        case "interval": return "(interval '-170000000 years' + \(number) * interval '1 day')"
        case "numeric":
            guard let precision = sizes?.first else { return "(-1e100 - \(number))::numeric" }
            let scale = sizes?.dropFirst().first ?? 0
            let unit = "power(10::numeric, "
            return "((\(number) + 1) * \(unit)-\(scale)) - \(unit)\(precision - scale)))::\(type)"
        case "character varying", "character":
            guard let length = sizes?.first else { return "(\(text))::\(type)" }
            // Private-use characters, different for each row.
            let last = "chr(983040 + (\(number) % 65000)::int)"
            return length == 1 ? last : "(chr(983040 + (\(number) / 65000)::int) || \(last))::\(type)"
        default: return "(\(text))::\(type)"
        }
    }
}
