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
        let type = table.type(column.name)
        return switch table.kind(column.name) {
        case .integer: "(-\(type == "smallint" ? "30000" : "2000000000") - s.rec)::\(type)"
        case .real: "(-9007199254740992 + s.rec)::\(type)"
        case .bytes: "convert_to('tidemark parked ' || s.rec, 'UTF8')"
        case .boolean: table.column(column.name, "t")
        case .text, .mixed: Self.parkedText(type)
        }
    }

    private static func parkedText(_ type: String) -> String {
        let text = "'tidemark parked ' || s.rec"
        let base = type.prefix { $0 != "(" }
        let sizes = type.split(separator: "(").dropFirst().first?.prefix { $0 != ")" }
            .split(separator: ",").compactMap { Int($0) }
        switch base {
        case "uuid", "jsonb": return base == "uuid" ? "md5(\(text))::uuid" : "to_jsonb(\(text))"
        case "date": return "('4713-01-01 BC'::date + s.rec::int)"
        case "timestamp", "timestamp with time zone", "timestamp without time zone":
            return "('4713-01-01 00:00:00 BC'::\(type) + s.rec * interval '1 second')"
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
