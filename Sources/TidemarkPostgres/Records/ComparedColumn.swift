import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// A column in PostgreSQL as a question compares and orders it.
///
/// | kind | compared as |
/// | --- | --- |
/// | integers, reals, booleans, bytes, `numeric` as a number, intervals as a number | by type |
/// | `uuid`, `date`, `timestamp`, `timestamptz`, `time` | by type, which orders the years 1 to 9999 as their texts |
/// | `text`, `varchar` | by bytes |
/// | all others | the text that devices have, by bytes |
///
/// An index of the column serves the first two kinds, and equality of the third. NaN in a column of reals is NULL, as
/// on devices.
struct ComparedColumn {
    let table: PostgresTable
    let column: SyncedTable.Column

    private enum Form {
        case integer
        case real
        case typed
        case text
        case deviceText
    }

    private var form: Form {
        switch table.kind(column.name) {
        case .integer: .integer
        case .real: .real
        case .boolean, .bytes, .number, .microseconds, .hexadecimal, .moment, .longMoment: .typed
        case .text where Self.texts.contains(baseType): .text
        case .text where Self.ordered.contains(baseType): .typed
        case .text, .mixed, .address, .interval: .deviceText
        }
    }

    private static let texts = ["text", "character varying"]
    private static let ordered = PostgresType.moments + ["uuid", "date"]

    private var baseType: String { PostgresType.baseName(table.type(column.name)) }
    private var name: String { table.column(column.name, PostgresDialect.alias) }
    private var isKey: Bool { table.table.key.contains(column.name) }

    /// The column for comparisons and the order.
    var operand: String {
        switch form {
        case .integer, .typed: name
        case .real: isKey ? name : "nullif(\(name), 'NaN')"
        case .text: "\(name) COLLATE \"C\""
        case .deviceText: text
        }
    }

    var text: String { table.kind(column.name).text(name) }

    var indexed: String {
        switch form {
        case .integer, .typed: SQLText.name(column.name)
        case .real: isKey ? SQLText.name(column.name) : "(nullif(\(SQLText.name(column.name)), 'NaN'))"
        case .text: "\(SQLText.name(column.name)) COLLATE \"C\""
        case .deviceText: "((\(SQLText.name(column.name))::text) COLLATE \"C\")"
        }
    }

    var mayBeNull: Bool { !isKey && (!column.isNotNull || form == .real) }

    /// The condition that the column has one of the values, each in SQL.
    func isOneOf(_ values: [String]) -> String {
        let list = values.joined(separator: ", ")
        let exact = "\(operand) IN (\(list))"
        // The first condition uses an index of the database's own collation.
        return form == .text ? "(\(name) IN (\(list)) AND \(exact))" : exact
    }

    /// The condition that the column equals a text in SQL, in any spelling that its type reads.
    func isSpelled(_ text: String) -> String {
        // An integer may be too large for the column's type.
        let type = form == .integer ? "bigint" : table.wholeType(column.name)
        return "\(name) = (\(text))::\(type)"
    }

    /// A value in canonical JSON as a parameter that compares with ``operand``; throws `invalidValue`.
    func value(_ json: String, _ placeholder: String) throws(TidemarkError) -> BoundSQL {
        let value = try decoded(json)
        let kind = table.kind(column.name)
        switch form {
        case .integer:
            if case .text(let text) = value, Int64(text) == nil {
                guard let number = Double(text), !number.isNaN else { throw invalid("is no number") }
                return Self.number(number, placeholder)
            }
            if case .real(let number) = value { return Self.number(number, placeholder) }
            return BoundSQL("\(placeholder)::bigint", try spelled(value, kind))
        case .real, .typed: return BoundSQL("\(placeholder)::\(baseType)", try spelled(value, kind))
        case .text: return BoundSQL("\(placeholder)::text", try spelled(value, .text))
        case .deviceText: return BoundSQL("\(placeholder)::text COLLATE \"C\"", try spelled(value, .text))
        }
    }

    /// A key's value in canonical JSON as a text for ``isSpelled(_:)``; nil if no row can have it.
    func spelledKey(_ json: String) throws(TidemarkError) -> String? {
        switch PostgresText.convert(try decoded(json), table.kind(column.name)) {
        case .success(let text): text
        case .failure: nil
        }
    }

    /// A number for a column of integers, as an integer where that is possible, so that an index serves it.
    private static func number(_ number: Double, _ placeholder: String) -> BoundSQL {
        if let whole = Int64(exactly: number) { return BoundSQL("\(placeholder)::bigint", String(whole)) }
        let text = number.isInfinite ? (number < 0 ? "-1e999" : "1e999") : number.description
        return BoundSQL("\(placeholder)::numeric", text)
    }

    private func decoded(_ json: String) throws(TidemarkError) -> Value {
        do { return try Value(json: json) } catch { throw invalid(error.reason) }
    }

    private func spelled(_ value: Value, _ kind: PostgresType) throws(TidemarkError) -> String {
        switch PostgresText.convert(value, kind) {
        case .success(let text?): return text
        case .success(nil): throw invalid("is NULL, which is.null finds")
        case .failure(let misfit): throw invalid(misfit.reason)
        }
    }

    private func invalid(_ reason: String) -> TidemarkError {
        TidemarkError(
            .invalidValue, "A value in the query is not valid: it \(reason).",
            fix: "Compare the column with values of its type.",
            place: .init(table: table.table.name, column: column.name))
    }
}
