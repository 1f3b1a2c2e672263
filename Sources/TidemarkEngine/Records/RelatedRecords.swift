import TidemarkCore

/// Embeds related records in a page: `select=name,player(name)` or `select=name,team_id(name)`.
///
/// One question for every ``batchSize`` records of a relation.
struct RelatedRecords {
    private let reader: any ZoneReader
    /// SQLite's limits for the depth of an expression and the number of parameters are not far above.
    private static let batchSize = 500

    init(_ reader: any ZoneReader) { self.reader = reader }

    /// Returns the members of related records, for each row.
    func attach(_ list: ListQuery, to rows: [RowText], columns: [SyncedTable.Column], of table: SyncedTable) throws
        -> [[(name: String, value: String)]]
    {
        var members = [[(name: String, value: String)]](repeating: [], count: rows.count)
        for relation in list.relations {
            guard !rows.isEmpty else { break }
            let link = try link(relation, of: table)
            let values = rows.map { row in link.own.map { name in cell(name, of: row, columns) } }
            let found = try related(link, values)
            for (index, value) in values.enumerated() {
                let texts = found[value.joined(separator: ",")] ?? []
                let json = link.isParent ? texts.first ?? "null" : JSONText.array(texts)
                members[index].append((RecordText.member(of: relation.name), json))
            }
        }
        return members
    }

    /// Two tables' columns that refer to each other.
    private struct Link {
        let table: SyncedTable
        let columns: [SyncedTable.Column]
        /// The columns on the listed side.
        let own: [String]
        /// The columns on the related side.
        let theirs: [String]
        let isParent: Bool
    }

    private func link(_ relation: ListQuery.Relation, of table: SyncedTable) throws(TidemarkError) -> Link {
        let parents = table.references.filter { $0.columns.contains(relation.name) }
        let children = reader.schema.references(to: table.name).filter { $0.0.name == relation.name }
        if let reference = parents.first, let parent = reader.schema.byName[reference.parent] {
            return Link(
                table: parent, columns: try columns(relation, of: parent), own: reference.columns,
                theirs: reference.parentColumns, isParent: true)
        }
        guard let (child, reference) = children.first, children.count == 1 else {
            throw TidemarkError(
                .invalidFilter,
                "\(relation.name) is neither a column of \(table.name) that refers to another table, "
                    + "nor a table that refers to \(table.name) by one foreign key.",
                fix: "GET /tables lists the references.", place: .init(table: table.name))
        }
        return Link(
            table: child, columns: try columns(relation, of: child), own: reference.parentColumns,
            theirs: reference.columns, isParent: false)
    }

    private func columns(_ relation: ListQuery.Relation, of table: SyncedTable) throws(TidemarkError)
        -> [SyncedTable.Column]
    {
        guard !relation.columns.isEmpty else { return table.columns }
        var columns: [SyncedTable.Column] = []
        for name in relation.columns {
            let column = try ParseFilter(table: table).column(name)
            if !columns.contains(column) { columns.append(column) }
        }
        return columns
    }

    /// Reads the related records, by the values of the columns that link them.
    private func related(_ link: Link, _ values: [[String]]) throws -> [String: [String]] {
        let linked = Set(values.filter { !$0.contains("null") }).sorted { $0.lexicographicallyPrecedes($1) }
        guard !linked.isEmpty else { return [:] }
        let theirs = try link.theirs.map { try ParseFilter(table: link.table).column($0) }
        var rows: [RowText] = []
        var bytes = 0
        for start in stride(from: 0, to: linked.count, by: Self.batchSize) {
            let batch = Array(linked[start..<min(start + Self.batchSize, linked.count)])
            let page = try reader.rows(query(link, where: theirs, are: batch))
            rows += page.rows
            bytes += page.rows.reduce(0) { $0 + $1.byteCount }
            guard !page.hasMore, rows.count <= ZoneReaderLimits.relatedMax, bytes <= ZoneReaderLimits.bytesMax else {
                throw Self.tooLarge(link.table)
            }
        }
        return texts(of: rows, link, theirs.count)
    }

    private func query(_ link: Link, where theirs: [SyncedTable.Column], are linked: [[String]]) -> RowQuery {
        var query = RowQuery(link.table, limit: ZoneReaderLimits.relatedMax, bytesMax: ZoneReaderLimits.bytesMax)
        query.columns = link.columns + theirs
        query.filter =
            theirs.count == 1
            ? .isOneOf(theirs[0], linked.map { $0[0] })
            : .any(linked.map { value in .all(zip(theirs, value).map { .compare($0, .equal, $1) }) })
        return query
    }

    private static func tooLarge(_ table: SyncedTable) -> TidemarkError {
        TidemarkError(
            .tooLarge,
            "The related records of this page are more than \(ZoneReaderLimits.relatedMax), or more than 1 MiB.",
            fix: "Send a smaller limit.", place: .init(table: table.name))
    }

    /// Returns the related records as JSON, by the values of their last columns, which link them.
    private func texts(of rows: [RowText], _ link: Link, _ linkCount: Int) -> [String: [String]] {
        var found: [String: [String]] = [:]
        let text = RecordText(link.columns)
        for row in rows {
            found[row.cells.suffix(linkCount).joined(separator: ","), default: []].append(text.object(row))
        }
        return found
    }

    private func cell(_ name: String, of row: RowText, _ columns: [SyncedTable.Column]) -> String {
        guard let index = columns.firstIndex(where: { $0.name == name }), index < row.cells.count else { return "null" }
        return row.cells[index]
    }
}
