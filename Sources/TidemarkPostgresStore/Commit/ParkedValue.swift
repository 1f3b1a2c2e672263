import TidemarkCore
import TidemarkSQLite

/// What stands in a unique column while its value changes hands.
extension PostgresTransaction {
    /// A value that fits the column's type and equals no other record's; of a type that has none
    /// such here, a text, which PostgreSQL refuses.
    ///
    /// A reference that follows its parent to NULL would not come back.
    func parked(_ table: PostgresTable, _ column: SyncedTable.Column) -> String {
        let isReferenced = schema.references(to: table.table.name).contains {
            $0.reference.parentColumns.contains(column.name)
        }
        guard column.isNotNull || isReferenced else { return "NULL" }
        guard table.kind(column.name) != .boolean else { return table.column(column.name, "t") }
        return Self.parked(table.type(column.name))
    }

    private static func parked(_ type: String) -> String {
        if type.hasSuffix("[]") { return "ARRAY[\(parked(String(type.dropLast(2))))]" }
        if let bound = bounds[type] { return "\(type)(\(parked(bound)), NULL)" }
        return switch PostgresType(column: type) {
        case .integer: "(-\(type == "smallint" ? "30000" : "2000000000") - s.rec)::\(type)"
        case .real: "(-9007199254740992 + s.rec)::\(type)"
        case .bytes: "convert_to('tidemark parked ' || s.rec, 'UTF8')"
        case .boolean, .text, .mixed: parkedText(type)
        }
    }

    /// What the ranges are of that PostgreSQL comes with.
    private static let bounds = [
        "int4range": "integer", "int8range": "bigint", "numrange": "numeric", "daterange": "date",
        "tsrange": "timestamp without time zone", "tstzrange": "timestamp with time zone",
    ]

    private static func parkedText(_ type: String) -> String {
        let text = "'tidemark parked ' || s.rec"
        let base = type.prefix { $0 != "(" }
        let sizes = type.split(separator: "(").dropFirst().first?.prefix { $0 != ")" }.split(separator: ",").compactMap
        { Int($0) }
        switch base {
        case "uuid", "jsonb": return base == "uuid" ? "md5(\(text))::uuid" : "to_jsonb(\(text))"
        case "date": return "('4713-01-01 BC'::date + s.rec::int)"
        case "timestamp", "timestamp with time zone", "timestamp without time zone":
            return "('4713-01-01 00:00:00 BC'::\(type) + s.rec * interval '1 second')"
        case "time", "time without time zone", "time with time zone":
            // All times are somebody's; few have such a fraction of a second.
            return "('23:59:59.999983'::\(type) - s.rec * interval '1.000003 seconds')"
        case "inet", "cidr": return "('100::'::inet + s.rec)::\(type)"
        case "interval": return "(interval '-170000000 years' + s.rec * interval '1 day')"
        case "numeric":
            guard let precision = sizes?.first else { return "(-1e100 - s.rec)::numeric" }
            let (scale, unit) = (sizes?.dropFirst().first ?? 0, "power(10::numeric, ")
            return "((s.rec + 1) * \(unit)-\(scale)) - \(unit)\(precision - scale)))::\(type)"
        case "character varying", "character":
            guard let length = sizes?.first else { return "(\(text))::\(type)" }
            // Characters that nobody assigns, of which each row gets others.
            let last = "chr(983040 + (s.rec % 65000)::int)"
            return length == 1 ? last : "(chr(983040 + (s.rec / 65000)::int) || \(last))::\(type)"
        default: return "(\(text))::\(type)"
        }
    }
}
