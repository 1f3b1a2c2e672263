import TidemarkCore
import TidemarkSQL

/// Translates the defaults of columns to SQLite's dialect.
extension AdoptTables {
    /// Returns a default in SQLite's dialect; nil for an expression that only PostgreSQL can compute.
    func sqliteDefault(_ expression: String, type: String, _ kind: PostgresType) throws -> String? {
        guard Self.isConstant(expression) else { return Self.currentTime(expression, kind) }
        // PostgreSQL computes the value, so that devices insert exactly the same, such as `1.50`.
        let value = "(\(expression))::\(type)"
        switch kind {
        case .integer, .real, .boolean:
            let text = try pg.rows("SELECT (\(value))::text")[0].text(0)
            if kind == .boolean { return text == "true" ? "1" : "0" }
            return Double(text)?.isFinite == true ? text : nil
        case .bytes: return try pg.text("SELECT 'X''' || encode(\(value), 'hex') || ''''")
        default:
            let row = try pg.rows(
                """
                SELECT json_typeof(preset.json), preset.json #>> '{}'
                FROM (SELECT (\(kind.json(value)))::json) AS preset (json)
                """)[0]
            return row[0] == "string" ? SQLText.literal(row.text(1)) : row[1]
        }
    }

    private static func currentTime(_ expression: String, _ kind: PostgresType) -> String? {
        switch (expression.lowercased(), kind) {
        case ("now()", .text), ("current_timestamp", .text), ("now()", .moment), ("current_timestamp", .moment),
            ("now()", .longMoment), ("current_timestamp", .longMoment):
            "CURRENT_TIMESTAMP"
        case ("current_date", .text): "CURRENT_DATE"
        default: nil
        }
    }

    /// Whether a default is constant: a number, Boolean, text or array, with PostgreSQL's type casts.
    static func isConstant(_ expression: String) -> Bool {
        let value =
            /(?:-?[0-9.]+(?:e[+\-]?[0-9]+)?|true|false|'(?:[^']|'')*')(?:::[\w "\.]+(?:\([0-9, ]+\))?(?:\[\])*)?/
        let inBrackets = /\((.*)\)(?:::[\w "\.]+(?:\([0-9, ]+\))?(?:\[\])*)?/
        if expression.wholeMatch(of: value) != nil { return true }
        if let inner = expression.wholeMatch(of: inBrackets), inner.1.wholeMatch(of: value) != nil { return true }
        guard let array = expression.wholeMatch(of: /ARRAY\[(.*)\]/) else { return false }
        return array.1.split(separator: ", ").allSatisfy { isConstant(String($0)) }
    }
}
