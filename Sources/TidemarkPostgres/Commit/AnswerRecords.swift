import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// What a commit asks of the zone's rows and log: a statement a table, all in one round trip.
extension PostgresTransaction {
    func records(_ question: RecordQuestion) throws -> RecordAnswer {
        var answer = RecordAnswer()
        switch question {
        case .contended(let changes): answer.contended = try contendedRows(changes)
        case .rows(let names): answer.rows = try presentRows(names)
        case .children(let names, let max): answer.children = try referrers(to: names, max: max)
        case .holders(let columns, let table, let changeSet):
            answer.holders = try otherHolders(of: columns, in: table, changeSet)
        case .keys(let changes): answer.keys = try spelledKeys(changes)
        case .values(let values): answer.values = try spelledValues(values)
        }
        return answer
    }

    private func contendedRows(_ changes: [Int: BasedChange]) throws -> [Int: (exists: Bool, row: [Value]?)] {
        var statements: [PostgresStatement] = []
        let indexes = changes.keys.sorted()
        for (place, indexes) in Dictionary(grouping: indexes, by: { changes[$0]?.name.table ?? 0 }).sorted(by: {
            $0.key < $1.key
        }) {
            let table = try table(place)
            var sent = SentRows(table)
            let changes = indexes.compactMap { changes[$0] }
            for change in changes { try sent.begin(key: change.name.key) }
            statements.append(
                PostgresStatement(
                    Self.contendedSQL(table, sent),
                    [
                        zone, PostgresArray.numbers(indexes.map(Int64.init)),
                        PostgresArray.numbers(changes.map(\.base)),
                        PostgresArray.quoted(changes.map(\.operation.rawValue)),
                        PostgresArray.quoted(changes.map(\.name.key)),
                    ] + sent.parameters()))
        }
        guard !statements.isEmpty else { return [:] }
        var found: [Int: (exists: Bool, row: [Value]?)] = [:]
        for rows in try pg.run(statements) {
            for row in rows.map({ $0 }) {
                let index = Int(row.integer(0) ?? 0)
                guard let name = changes[index]?.name else { continue }
                let image = try row[2].map { try schema.layouts[name.table].row(key: name.key, object: $0) }
                found[index] = (row.isTrue(1), image)
            }
        }
        return found
    }

    private static func contendedSQL(_ table: PostgresTable, _ sent: SentRows) -> String {
        """
        SELECT sent.number, app_row.tableoid IS NOT NULL,
            CASE WHEN app_row.tableoid IS NOT NULL AND sent.operation <> 'delete'
                THEN \(table.rowJSON("app_row")) END
        FROM \(sent.derivedTable(["number": "bigint", "base": "bigint", "operation": "text", "key": "text"]))
        LEFT JOIN \(table.name) AS app_row ON \(SentRows.matches(table, "app_row"))
        WHERE CASE sent.operation
            WHEN 'create' THEN app_row.tableoid IS NOT NULL
            ELSE app_row.tableoid IS NULL OR EXISTS (
                SELECT 1
                FROM tidemark.log AS log_entry
                WHERE log_entry.zone = $1 AND log_entry.tbl = \(table.literal) AND log_entry.key = sent.key
                    AND log_entry.revision > sent.base) END
        """
    }

    private func presentRows(_ names: [RecordID]) throws -> [RecordID: [Value]] {
        var rows: [RecordID: [Value]] = [:]
        for (place, names) in Self.byTable(names) {
            let table = try table(place)
            let found = try pg.query(
                """
                SELECT wanted.key, \(table.rowJSON("app_row"))
                FROM \(KeySet.keys(2))
                JOIN \(table.name) AS app_row ON \(KeySet.match(table, "app_row"))
                WHERE $1::text IS NOT NULL
                """,
                [zone, PostgresArray.quoted(names.map(\.key))])
            for row in found.map({ $0 }) {
                let name = RecordID(table: place, key: row.text(0))
                rows[name] = try schema.layouts[place].row(key: name.key, object: row.text(1))
            }
        }
        return rows
    }

    private static func byTable(_ names: [RecordID]) -> [(Int, [RecordID])] {
        Dictionary(grouping: names, by: \.table).sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    private func referrers(to names: [RecordID], max: Int) throws -> [RecordID] {
        var children: [RecordID] = []
        for (place, names) in Self.byTable(names) {
            let parent = try table(place)
            for (childPlace, synced) in schema.tables.enumerated() {
                for reference in synced.references where reference.parent == parent.table.name {
                    let child = try table(childPlace)
                    let match = zip(reference.columns, reference.parentColumns).map {
                        "\(child.column($0, "child_row")) = \(parent.column($1, "parent_row"))"
                    }
                    let keys = try pg.query(
                        """
                        SELECT \(child.keyJSON("child_row"))
                        FROM \(KeySet.keys(2))
                        JOIN \(parent.name) AS parent_row ON \(KeySet.match(parent, "parent_row"))
                        JOIN \(child.name) AS child_row
                            ON \(([child.inZone("child_row")] + match).joined(separator: " AND "))
                        WHERE $1::text IS NOT NULL
                        LIMIT $3::int
                        """,
                        [zone, PostgresArray.quoted(names.map(\.key)), "\(max)"]
                    ).map { $0.text(0) }
                    children += keys.map { RecordID(table: childPlace, key: $0) }
                }
            }
        }
        return children
    }

    private func otherHolders(of columns: [String], in place: Int, _ changeSet: PendingChangeSet) throws
        -> Set<String>
    {
        let table = try table(place)
        let setting = Set(columns)
        let items = changeSet.records.indices.filter {
            changeSet.records[$0].table == place && changeSet.records[$0].operation != .delete
        }.map { (changeSet: 0, record: $0) }
        let taking = items.map { changeSet.records[$0.record] }
        let sent = try sentRows(items, of: table, in: [changeSet])
        let places = table.table.columns.enumerated().filter { setting.contains($1.name) }
        let sameValues = places.map { place, column in
            let fill = table.defaults[column.name].map { "(\($0))::\(table.type(column.name))" } ?? "NULL"
            let otherwise =
                "CASE WHEN sent.operation = 'create' THEN \(fill) ELSE \(table.column(column.name, "own_row")) END"
            let value = sent.value(place, otherwise: otherwise, key: table.table.key.firstIndex(of: column.name))
            return "\(table.column(column.name, "app_row")) = \(value)"
        }
        let keys = try pg.query(
            """
            SELECT DISTINCT \(table.keyJSON("app_row"))
            FROM \(sent.derivedTable(["operation": "text", "key": "text"]))
            LEFT JOIN \(table.name) AS own_row ON \(SentRows.matches(table, "own_row"))
            JOIN \(table.name) AS app_row
                ON \(([table.inZone("app_row")] + sameValues).joined(separator: " AND "))
            WHERE $1::text IS NOT NULL AND \(table.keyJSON("app_row")) <> sent.key
            """,
            [
                zone, PostgresArray.quoted(taking.map(\.operation.rawValue)),
                PostgresArray.quoted(taking.map(\.key)),
            ] + sent.parameters()
        ).map { $0.text(0) }
        return Set(keys)
    }
}
