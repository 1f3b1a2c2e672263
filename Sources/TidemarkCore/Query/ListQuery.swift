package struct ListQuery: Hashable, Sendable {
    package enum Count: String, Hashable, Sendable {
        /// Exactly, up to a bound.
        case exact
        /// As the store estimates it, without reading rows.
        case estimate
    }

    /// Related records that come with each record.
    package struct Relation: Hashable, Sendable {
        /// The table of the related records, or the column that refers to a parent.
        package let name: String
        /// The columns of the related records; empty for all.
        package let columns: [String]
    }

    package var columns: [SyncedTable.Column]
    package var relations: [Relation] = []
    package var filter: RowFilter?
    package var order: [RowQuery.Order] = []
    /// The most records; nil for all within ``allMax``, without a cursor.
    package var limit: Int? = 100
    /// The cursor of the previous page.
    package var after: String?
    package var count: Count?
    package var charactersMax: Int?
    package static let limitMax = 1_000
    /// The most records of `limit=all`.
    package static let allMax = 50_000

    /// One name and value of a query, not percent-encoded.
    package struct Item: Hashable, Sendable {
        package let name: String
        package let value: String

        package init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    /// Reads the parameters; throws ``ErrorCode/invalidFilter`` or ``ErrorCode/unknownColumn``.
    package init(_ items: [Item], of table: SyncedTable) throws(TidemarkError) {
        columns = table.columns
        let parser = ParseFilter(table: table)
        var filters: [RowFilter] = []
        var names: Set<String> = []
        for item in items {
            let isParameter = Self.parameters.contains(item.name)
            if isParameter, !names.insert(item.name).inserted, item.name != "or", item.name != "and" {
                throw Self.invalid("The parameter \(item.name) stands there twice", table)
            }
            switch item.name {
            case "select": try readSelection(item.value, parser)
            case "order": order = try Self.order(item.value, parser)
            case "limit": limit = try Self.limit(item.value, table)
            case "after": after = item.value
            case "count":
                guard let kind = Count(rawValue: item.value) else { throw Self.invalid("The value of count", table) }
                count = kind
            case "truncate":
                guard let number = Int(item.value), (1...100_000).contains(number) else {
                    throw Self.invalid("The value of truncate", table)
                }
                charactersMax = number
            case "or": filters.append(try parser.group(item.value, isAny: true))
            case "and": filters.append(try parser.group(item.value, isAny: false))
            default: filters.append(try parser.condition(on: Self.unquoted(item.name), item.value))
            }
        }
        guard !filters.isEmpty else { return }
        let all = filters.count == 1 ? filters[0] : .all(filters)
        guard all.count <= ParseFilter.comparisonsMax else {
            throw Self.invalid("A filter of more than \(ParseFilter.comparisonsMax) comparisons", table)
        }
        filter = all
    }

    /// The parameters that shape the answer, and are no conditions.
    package static let shaping: Set<String> = ["select", "order", "limit", "after", "count", "truncate"]
    private static let parameters = shaping.union(["or", "and"])

    /// A column named like a parameter stands in quotes.
    private static func unquoted(_ name: String) -> String {
        name.count > 1 && name.hasPrefix("\"") && name.hasSuffix("\"") ? String(name.dropFirst().dropLast()) : name
    }

    private mutating func readSelection(_ value: String, _ parser: ParseFilter) throws(TidemarkError) {
        var text = QueryText(value)
        var selected: [SyncedTable.Column] = []
        var names: Set<String> = []
        repeat {
            guard let name = text.text(upTo: [",", "("])?.content, names.insert(name).inserted else {
                throw Self.invalid("The selection", parser.table)
            }
            if text.take("(") {
                relations.append(try Self.relation(name, in: &text, of: parser.table))
            } else if name == "*" {
                selected += parser.table.columns.filter { !selected.contains($0) }
            } else {
                let column = try parser.column(name)
                if !selected.contains(column) { selected.append(column) }
            }
        } while text.take(",")
        guard text.isAtEnd else { throw Self.invalid("The selection", parser.table) }
        columns = selected
    }

    private static func relation(_ name: String, in text: inout QueryText, of table: SyncedTable) throws(TidemarkError)
        -> Relation
    {
        var columns: [String] = []
        repeat {
            guard let column = text.text(upTo: [",", ")"])?.content, !column.isEmpty else {
                throw invalid("The selection", table)
            }
            columns.append(column)
        } while text.take(",")
        guard text.take(")") else { throw invalid("The selection", table) }
        return Relation(name: name, columns: columns == ["*"] ? [] : columns)
    }

    private static func order(_ value: String, _ parser: ParseFilter) throws(TidemarkError) -> [RowQuery.Order] {
        var text = QueryText(value)
        var order: [RowQuery.Order] = []
        repeat {
            guard let name = text.text(upTo: [",", "."])?.content else { throw invalid("The order", parser.table) }
            let isDescending = text.take(word: ".desc")
            if !isDescending { _ = text.take(word: ".asc") }
            let column = try parser.column(name)
            if !order.contains(where: { $0.column == column }) {
                order.append(RowQuery.Order(column: column, isDescending: isDescending))
            }
        } while text.take(",")
        guard text.isAtEnd, order.count <= 8 else { throw invalid("The order", parser.table) }
        return order
    }

    private static func limit(_ value: String, _ table: SyncedTable) throws(TidemarkError) -> Int? {
        if value == "all" { return nil }
        guard let number = Int(value), (1...limitMax).contains(number) else {
            throw TidemarkError(
                .invalidFilter, "The limit is not a number from 1 to \(limitMax).",
                fix: "Send limit=\(limitMax) and follow `next`, or limit=all for up to \(allMax) records.",
                place: .init(table: table.name))
        }
        return number
    }

    private static func invalid(_ subject: String, _ table: SyncedTable) -> TidemarkError {
        TidemarkError(
            .invalidFilter, "\(subject): the server cannot answer this.",
            fix: "Compare it with REST.md: select=id,name, order=name.desc, limit=100, count=exact, truncate=200.",
            place: .init(table: table.name))
    }
}
