import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// The SQL of PostgreSQL for questions about rows of one table; `$1` is the zone, and the parameters follow.
struct PostgresDialect: RowDialect {
    let table: PostgresTable
    let query: RowQuery
    /// The revision of rows without a log entry.
    let adopted: Int64

    static let alias = "app_row"

    private func compared(_ column: SyncedTable.Column) -> ComparedColumn {
        ComparedColumn(table: table, column: column)
    }

    private func placeholder(_ index: Int) -> String { "$\(index + 2)" }

    func value(_ json: String, of column: SyncedTable.Column, at index: Int) throws -> BoundSQL {
        try compared(column).value(json, placeholder(index))
    }

    func operand(_ column: SyncedTable.Column) -> String { compared(column).operand }

    func isOneOf(_ column: SyncedTable.Column, _ values: [String]) -> String { compared(column).isOneOf(values) }

    /// `LIKE` takes a step for each byte of the value and of the pattern, and looks for the timeout between rows only.
    ///
    /// A regular expression is an automaton that reads each byte once, and looks for the timeout while it reads. For
    /// short values it is slower, so these have `LIKE`.
    func like(_ column: SyncedTable.Column, _ pattern: String, at index: Int) -> BoundSQL {
        let text = compared(column).text
        let parts = TextPattern(pattern)
        let like = parts.parts.map { Self.escape($0, "%_\\") }.joined(separator: "%")
        guard !parts.isAnchored else { return BoundSQL("\(text) LIKE \(placeholder(index))::text", like) }
        let expression = parts.parts.map { Self.escape($0, "\\^$.[]()|*+?{}") }.joined(separator: ".*")
        let patterns = "(\(placeholder(index))::text[])"
        return BoundSQL(
            """
            (octet_length(\(text)) <= \(Self.likeBytesMax) AND \(text) LIKE \(patterns)[1]
                OR octet_length(\(text)) > \(Self.likeBytesMax) AND \(text) COLLATE "C" ~ \(patterns)[2])
            """,
            PostgresArray.quoted([like, "^\(expression)$"]))
    }

    /// The longest value that is compared by `LIKE`, in bytes.
    private static let likeBytesMax = 4_096

    private static func escape(_ text: String, _ special: String) -> String {
        text.unicodeScalars.map { special.unicodeScalars.contains($0) ? "\\\($0)" : String($0) }.joined()
    }

    func mayBeNull(_ column: SyncedTable.Column) -> Bool { compared(column).mayBeNull }

    var readsNullApart: Bool { true }

    func direction(of column: SyncedTable.Column, isDescending: Bool, isUniform: Bool) -> String {
        let direction = isDescending ? " DESC" : ""
        guard !isUniform, mayBeNull(column) else { return direction }
        return direction + (isDescending ? " NULLS LAST" : " NULLS FIRST")
    }

    func json(_ column: SyncedTable.Column, charactersMax: Int?) -> String {
        let name = table.column(column.name, Self.alias)
        let kind = table.kind(column.name)
        let json = kind.json(name)
        guard let charactersMax else { return json }
        switch kind {
        case .integer, .real, .boolean: return json
        case .bytes:
            let start = SQLText.literal(#"{"$cut":{"type":"blob","length":"#)
            return "CASE WHEN octet_length(\(name)) > \(charactersMax) THEN \(start) || octet_length(\(name)) || '}}' "
                + "ELSE \(json) END"
        case .number, .mixed, .microseconds:
            // A number is whole, however long.
            return cut(kind.text(name), json: json, to: charactersMax, also: "\(json) LIKE '\"%' AND ")
        case .text, .interval, .address, .hexadecimal, .moment, .longMoment:
            return cut(kind.text(name), json: json, to: charactersMax)
        }
    }

    private func cut(_ text: String, json: String, to charactersMax: Int, also condition: String = "") -> String {
        let start = SQLText.literal(#"{"$cut":{"type":"text","length":"#)
        let beginning = "tidemark.quote(left(\(text), \(charactersMax)))"
        return """
            CASE WHEN \(condition)octet_length(\(text)) > \(charactersMax) AND length(\(text)) > \(charactersMax)
            THEN \(start) || octet_length(\(text)) || ',"start":' || \(beginning) || '}}'
            ELSE \(json) END
            """
    }

    var keyJSON: String { table.keyJSON(Self.alias) }

    var revision: String {
        """
        coalesce(
            (SELECT max(log_entry.revision) FROM tidemark.log AS log_entry
                WHERE log_entry.zone = $1 AND log_entry.tbl = \(table.literal) AND log_entry.key = \(keyJSON)),
            \(adopted))
        """
    }

    var from: String { "\(table.name) AS \(Self.alias)" }
    var scope: String? { "\(table.inZone(Self.alias)) AND $1::text IS NOT NULL" }

    func from(keys: [String], at index: Int) throws -> BoundSQL {
        let columns = table.table.key.compactMap { name in table.table.columns.first { $0.name == name } }
        let spelled = try keys.compactMap { try spelledKey($0, columns) }
        let match = columns.indices.map { compared(columns[$0]).isSpelled("wanted.key ->> \($0)") }
        return BoundSQL(
            """
            jsonb_array_elements(\(placeholder(index))::jsonb) WITH ORDINALITY AS wanted (key, place)
            JOIN \(from) ON \(match.joined(separator: " AND "))
            """,
            JSONText.array(spelled))
    }

    /// Returns a key's values as an array of texts, JSON; nil if no row can have it.
    private func spelledKey(_ key: String, _ columns: [SyncedTable.Column]) throws -> String? {
        let parts = columns.count == 1 ? [key] : JSONParts.elements(of: key) ?? []
        guard parts.count == columns.count else { return nil }
        let texts = try zip(columns, parts).compactMap { try compared($0).spelledKey($1) }
        return texts.count == parts.count ? JSONText.array(texts.map { JSONText.quote($0) }) : nil
    }

    /// Reads rows until their bytes reach the maximum, with the number of all as the last cell; it reads no row beyond.
    func statement(_ selection: RowSelection) -> String {
        let isByKeys = selection.order.isEmpty
        let order = isByKeys ? "\(Self.alias).tidemark_place" : selection.order.joined(separator: ", ")
        let end = isByKeys ? "" : "\nORDER BY \(order)" + (selection.limit.map { "\nLIMIT \($0)" } ?? "")
        return """
            SELECT \(selection.cells.joined(separator: ", ")), \(Self.alias).tidemark_total
            FROM (
                SELECT \(Self.alias).*, count(*) OVER () AS tidemark_total, sum(\(bytes)) OVER (
                    ORDER BY \(order) ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS tidemark_before
                FROM (
                    SELECT \(Self.alias).*\(isByKeys ? ", wanted.place AS tidemark_place" : "")
                    FROM \(selection.source)\(end)
                ) AS \(Self.alias)
            ) AS \(Self.alias)
            WHERE coalesce(\(Self.alias).tidemark_before, 0) <= \(query.bytesMax)
            ORDER BY \(order)
            """
    }

    /// The bytes of a row's selected values, nearly.
    private var bytes: String {
        let sizes = query.columns.map { column in
            let name = table.column(column.name, Self.alias)
            let type = PostgresType.baseName(table.type(column.name))
            let isLong = ["text", "character varying", "bytea"].contains(type)
            let size = isLong ? "octet_length(\(name))" : "pg_column_size(\(name))"
            // A character has up to 4 bytes.
            return "coalesce(\(query.charactersMax.map { "least(\(size), \($0 * 4))" } ?? size), 4)"
        }
        return sizes.isEmpty ? "0" : sizes.joined(separator: " + ")
    }

    /// The statement that makes the index with which a question is cheap.
    var indexSQL: String {
        let columns = query.indexColumns.map { compared($0).indexed }
        let zone = table.zoneColumn.map { [SQLText.name($0)] } ?? []
        return "CREATE INDEX ON \(table.name) (\((zone + columns).joined(separator: ", ")));"
    }
}
