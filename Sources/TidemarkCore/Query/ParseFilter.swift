/// Reads filters in a subset of PostgREST's syntax: `gte.100`, `in.(CH,AT)`, `not.is.null`, `or=(a.eq.1,and(b.gt.2))`.
package struct ParseFilter {
    let table: SyncedTable

    package init(table: SyncedTable) { self.table = table }

    static let comparisonsMax = 200
    private static let depthMax = 8

    /// Reads the value of a parameter that a column names.
    func condition(on name: String, _ value: String) throws(TidemarkError) -> RowFilter {
        var text = QueryText(value)
        let filter = try condition(on: try column(name), &text, endings: [])
        guard text.isAtEnd else { throw Self.unreadable("The filter on \(name)", table) }
        return filter
    }

    /// Reads the value of `or` or `and`.
    func group(_ value: String, isAny: Bool) throws(TidemarkError) -> RowFilter {
        var text = QueryText(value)
        let filter = try list(&text, isAny: isAny, depth: 0)
        guard text.isAtEnd else { throw Self.unreadable("The list of conditions", table) }
        return filter
    }

    package func column(_ name: String) throws(TidemarkError) -> SyncedTable.Column {
        guard let column = table.columns.first(where: { $0.name == name }) else {
            throw TidemarkError(
                .unknownColumn, "\(table.name) has no column of this name, and no parameter has it.",
                fix: "The columns are \(table.columns.map(\.name).prefix(50).joined(separator: ", ")).",
                place: .init(table: table.name, column: name))
        }
        return column
    }

    private func list(_ text: inout QueryText, isAny: Bool, depth: Int) throws(TidemarkError) -> RowFilter {
        guard depth < Self.depthMax, text.take("(") else { throw Self.unreadable("The list of conditions", table) }
        var parts: [RowFilter] = []
        repeat {
            let isNegated = text.take(word: "not.and(") || text.take(word: "not.or(")
            guard !isNegated else {
                throw TidemarkError(
                    .invalidFilter, "A group of conditions is negated.", fix: "Negate its conditions one by one.",
                    place: .init(table: table.name))
            }
            if text.take(word: "or(") {
                parts.append(try nested(&text, isAny: true, depth: depth))
            } else if text.take(word: "and(") {
                parts.append(try nested(&text, isAny: false, depth: depth))
            } else {
                guard let name = text.text(upTo: [".", ",", ")"]), text.take(".") else {
                    throw Self.unreadable("The list of conditions", table)
                }
                guard name.isQuoted || name.content != "not" || table.columns.contains(where: { $0.name == "not" })
                else {
                    throw TidemarkError(
                        .invalidFilter, "A condition begins with not, and a column comes first.",
                        fix: "Write or=(name.not.like.x,…), or the filter name=not.like.x.",
                        place: .init(table: table.name))
                }
                parts.append(try condition(on: try column(name.content), &text, endings: [",", ")"]))
            }
        } while text.take(",")
        guard text.take(")") else { throw Self.unreadable("The list of conditions", table) }
        return isAny ? .any(parts) : .all(parts)
    }

    /// Reads a nested list, whose opening parenthesis is already read.
    private func nested(_ text: inout QueryText, isAny: Bool, depth: Int) throws(TidemarkError) -> RowFilter {
        var rest = QueryText("(" + text.remainder())
        let filter = try list(&rest, isAny: isAny, depth: depth + 1)
        text = rest
        return filter
    }

    private func condition(on column: SyncedTable.Column, _ text: inout QueryText, endings: Set<Unicode.Scalar>)
        throws(TidemarkError) -> RowFilter
    {
        guard text.take(word: "not.") else { return try plain(on: column, &text, endings: endings) }
        return .not(try plain(on: column, &text, endings: endings))
    }

    /// Reads a condition that is not negated.
    private func plain(on column: SyncedTable.Column, _ text: inout QueryText, endings: Set<Unicode.Scalar>)
        throws(TidemarkError) -> RowFilter
    {
        if text.take(word: "is.null") { return .isNull(column) }
        if text.take(word: "in.(") {
            var values: [String] = []
            repeat { values.append(try operand(&text, of: column, endings: [",", ")"])) } while text.take(",")
            guard text.take(")") else { throw Self.unreadable("The list of \(column.name)", table) }
            return .isOneOf(column, values)
        }
        if text.take(word: "like.") {
            guard let pattern = text.text(upTo: endings) else { throw Self.unreadable("The pattern", table) }
            return .isLike(try textual(column), try bounded(pattern.content, column))
        }
        for comparison in RowFilter.Comparison.allCases where text.take(word: comparison.rawValue + ".") {
            return .compare(column, comparison, try operand(&text, of: column, endings: endings))
        }
        throw TidemarkError(
            .invalidFilter, "The filter has no known operator.",
            fix: "Use eq, neq, gt, gte, lt, lte, in.(...), like or is.null, each perhaps after not.",
            place: .init(table: table.name, column: column.name))
    }

    /// Returns a column that may hold texts.
    private func textual(_ column: SyncedTable.Column) throws(TidemarkError) -> SyncedTable.Column {
        let isBlob = column.affinity == "BLOB" && !column.type.isEmpty
        guard !isBlob, column.affinity != "INTEGER", column.affinity != "REAL" else {
            throw TidemarkError(
                .invalidFilter, "The operator like compares texts, and the column holds numbers or blobs.",
                fix: "Use eq, gt, gte, lt or lte.", place: .init(table: table.name, column: column.name))
        }
        return column
    }

    private func bounded(_ pattern: String, _ column: SyncedTable.Column) throws(TidemarkError) -> String {
        let count = pattern.unicodeScalars.count
        guard count <= TextPattern.charactersMax else {
            throw TidemarkError(
                .invalidFilter,
                "The pattern of like has \(count) characters, and at most \(TextPattern.charactersMax) are allowed.",
                fix: "Look for a part of the text.", place: .init(table: table.name, column: column.name))
        }
        return pattern
    }

    private func operand(_ text: inout QueryText, of column: SyncedTable.Column, endings: Set<Unicode.Scalar>)
        throws(TidemarkError) -> String
    {
        guard let value = text.text(upTo: endings) else { throw Self.unreadable("A quoted value", table) }
        return PlainValue.json(value.content, of: column, isQuoted: value.isQuoted)
    }

    static func unreadable(_ subject: String, _ table: SyncedTable) -> TidemarkError {
        TidemarkError(
            .invalidFilter, "\(subject) cannot be read.",
            fix: "Compare it with REST.md: column=gte.5, column=in.(a,b), or=(a.eq.1,b.gt.2).",
            place: .init(table: table.name))
    }
}
