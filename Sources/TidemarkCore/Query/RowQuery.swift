import Foundation

/// A question for rows of one table; its names come from the schema and its values are canonical JSON, never SQL text.
package struct RowQuery: Hashable, Sendable {
    package struct Order: Hashable, Sendable {
        package let column: SyncedTable.Column
        package let isDescending: Bool
    }

    /// The place of a row in an order, as canonical JSON.
    package struct Position: Hashable, Sendable, Codable {
        /// The values of the order's columns.
        package let values: [String]
        /// The values of the key's columns.
        package let key: [String]

        package init(values: [String], key: [String]) {
            self.values = values
            self.key = key
        }
    }

    package let table: SyncedTable
    /// The columns of the answer, in their order.
    package var columns: [SyncedTable.Column]
    /// The condition; nil for every row.
    package var filter: RowFilter?
    /// The keys in canonical JSON, if the question is about certain records; then there is no order.
    package var keys: [String]?
    /// The order, which the key completes, in the direction of the last column.
    package var order: [Order] = []
    /// The row after which the answer begins.
    package var after: Position?
    package var limit: Int
    /// The most bytes of the rows; the answer has at least one row.
    package var bytesMax: Int
    /// The most characters of a value, because longer ones are cut; nil for whole values.
    package var charactersMax: Int?

    package init(_ table: SyncedTable, limit: Int, bytesMax: Int) {
        self.table = table
        columns = table.columns
        self.limit = limit
        self.bytesMax = bytesMax
    }

    package var isKeyDescending: Bool { order.last?.isDescending ?? false }

    /// Whether many requests ask this with other values, so that a store keeps the statement: a short, plain one.
    package var isCommon: Bool {
        filter == nil && charactersMax == nil && order.count <= 1 && table.columns.count <= 100
            && (columns.isEmpty || columns == table.columns)
    }

    /// The columns that give a row's place in the order: those of the order, and the key's.
    package var placeColumns: [SyncedTable.Column] {
        order.map(\.column) + table.key.compactMap { name in table.columns.first { $0.name == name } }
    }

    /// The columns that a store selects after ``columns``: those of the place whose whole values are not there yet.
    package var furtherColumns: [SyncedTable.Column] {
        guard charactersMax == nil else { return placeColumns }
        return placeColumns.filter { !columns.contains($0) }
    }

    /// The columns of the index with which the question is cheap.
    package var indexColumns: [SyncedTable.Column] {
        let key = table.key.compactMap { name in table.columns.first { $0.name == name } }
        var columns: [SyncedTable.Column] = []
        for column in (filter?.equalColumns ?? []) + order.map(\.column) + key where !columns.contains(column) {
            columns.append(column)
        }
        return columns
    }
}

/// Rows of one table, as a store answers a ``RowQuery``.
package struct RowPage: Hashable, Sendable {
    /// The rows, in the order of the question.
    package var rows: [RowText]
    package var hasMore: Bool

    package init(rows: [RowText], hasMore: Bool) {
        self.rows = rows
        self.hasMore = hasMore
    }
}

/// A row, each value in canonical JSON.
package struct RowText: Hashable, Sendable {
    /// The record's key in canonical JSON, as the log has it.
    package let key: String
    /// The values of the question's columns, in their order.
    package let cells: [String]
    /// The revision that last changed the record.
    package let revision: Int64
    /// The row's place in the question's order.
    package let position: RowQuery.Position

    package init(key: String, cells: [String], revision: Int64, position: RowQuery.Position) {
        self.key = key
        self.cells = cells
        self.revision = revision
        self.position = position
    }

    package var byteCount: Int { cells.reduce(key.utf8.count) { $0 + $1.utf8.count } }
}

/// Keys of records as they stand in a path: `7`, `DE`, `DE,SH`.
package enum RecordPath {
    /// Returns the JSON of the key that a path's segment names; `decode` removes the percent-encoding of a part.
    ///
    /// - Throws: ``ErrorCode/invalidKey`` for a wrong number of parts, or a part that is no valid text.
    package static func key(_ segment: some StringProtocol, of table: SyncedTable, decode: (String) -> String?)
        throws(TidemarkError) -> String
    {
        let parts = Substring(segment).split(separator: ",", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == table.key.count else {
            throw wrong("has \(parts.count) of \(table.key.count) parts", table)
        }
        var values: [String] = []
        for (name, part) in zip(table.key, parts) {
            guard let column = table.columns.first(where: { $0.name == name }), let text = decode(part),
                !text.utf8.contains(0)
            else { throw wrong("is not valid percent-encoded UTF-8", table) }
            if table.keyKind == .integer, Int64(text).map(String.init) != text { throw wrong("is no integer", table) }
            values.append(PlainValue.json(text, of: column))
        }
        return values.count == 1 ? values[0] : JSONText.array(values)
    }

    /// Returns a key as it stands in a path, from the canonical JSON of its columns.
    package static func text(_ key: [String]) -> String { key.map(part).joined(separator: ",") }

    /// Returns a key as it stands in a path, from its canonical JSON.
    package static func text(canonical key: String, of table: SyncedTable?) -> String {
        guard let table, table.key.count > 1 else { return text([key]) }
        return text(JSONParts.elements(of: key) ?? [key])
    }

    private static func part(_ json: String) -> String {
        let text = json.hasPrefix("\"") ? JSONText.unquote(json) : json
        guard json.hasPrefix("\""), text.hasPrefix(#"{"$"#) else { return encode(text) }
        // A text that begins like a tagged value needs a tag itself.
        return encode(#"{"$text":"\#(Data(text.utf8).base64EncodedString())"}"#)
    }

    /// Returns a text percent-encoded, for one segment of a path.
    package static func encode(_ text: String) -> String {
        text.addingPercentEncoding(withAllowedCharacters: unreserved) ?? text
    }

    private static let unreserved = CharacterSet(
        charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")

    private static func wrong(_ reason: String, _ table: SyncedTable) -> TidemarkError {
        TidemarkError(
            .invalidKey, "The key of \(table.name) \(reason).",
            fix: "Write \(table.key.joined(separator: ",")), each part percent-encoded.",
            place: .init(table: table.name))
    }
}

/// Values as people write them in paths and queries: `7`, `DE`, `{"$blob":"AP8="}`.
package enum PlainValue {
    /// Returns the JSON of a text: a number if it looks like one and the column can hold one, unless it is quoted.
    package static func json(_ text: String, of column: SyncedTable.Column, isQuoted: Bool = false) -> String {
        if !isQuoted, text.hasPrefix(#"{"$"#) { return integer(text) ?? text }
        if !isQuoted, column.affinity != "TEXT", isNumber(text) { return text }
        return JSONText.quote(text)
    }

    /// Returns the digits of `{"$int":"9223372036854775807"}`; nil for another text.
    private static func integer(_ text: String) -> String? {
        let start = #"{"$int":""#
        guard text.hasPrefix(start), text.hasSuffix(#""}"#) else { return nil }
        return Int64(text.dropFirst(start.count).dropLast(2)).map(String.init)
    }

    /// Whether a text is a JSON number that a column can hold.
    static func isNumber(_ text: String) -> Bool {
        let bytes = Array(text.utf8)
        let digits = bytes.drop { $0 == UInt8(ascii: "-") }
        guard let first = digits.first, isDigit(first), bytes.count - digits.count <= 1 else { return false }
        if digits.allSatisfy(isDigit) { return (first != UInt8(ascii: "0") || digits.count == 1) && Int64(text) != nil }
        guard digits.count < 2 || first != UInt8(ascii: "0") || !isDigit(digits.dropFirst().first ?? 0),
            bytes.allSatisfy({ isDigit($0) || "-+.eE".utf8.contains($0) }), bytes.last.map(isDigit) == true,
            !text.contains(".e"), !text.contains(".E")
        else { return false }
        return Double(text)?.isFinite == true
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }
}
