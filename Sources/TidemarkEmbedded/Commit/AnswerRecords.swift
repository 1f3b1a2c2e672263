import GRDB
import TidemarkCore
package import TidemarkEngine
import TidemarkSQL

/// What a commit asks of a zone's file: a cached statement a record, which in one process is the fastest there is.
extension ZoneTransaction {
    package func records(_ question: RecordQuestion) throws -> RecordAnswer {
        var answer = RecordAnswer()
        switch question {
        case .contended(let changes): answer.contended = try contendedRows(changes)
        case .rows(let names): answer.rows = try names.reduce(into: [:]) { $0[$1] = try row($1) }
        case .children(let names, let max): answer.children = try referrers(to: names, max: max)
        case .holders(let columns, let table, let changeSet):
            answer.holders = try otherHolders(of: columns, in: table, changeSet)
        case .keys(let changes): answer.keys = try spelledKeys(changes)
        case .values(let values): answer.values = values.map(\.value)
        }
        return answer
    }

    /// A new record keeps its key: no column changes it.
    private func spelledKeys(_ changes: [RecordID: TidemarkCore.Operation]) throws -> [RecordID: String] {
        var stored: [RecordID: String] = [:]
        for name in changes.keys where changes[name] != .create {
            let table = schema.tables[name.table]
            let found = try RowValues.first(
                "SELECT \(RowJSON.key(table)) FROM main.\(SQLText.name(table.name)) WHERE \(Self.keyMatch(table))",
                Value.parts(ofKey: name.key), in: db)
            guard case .text(let key)? = found?.first, !key.utf8.elementsEqual(name.key.utf8) else { continue }
            stored[name] = key
        }
        return stored
    }

    private func contendedRows(_ changes: [Int: BasedChange]) throws -> [Int: (exists: Bool, row: [Value]?)] {
        var contended: [Int: (exists: Bool, row: [Value]?)] = [:]
        var statements: [Int: (isNew: BoundStatement, isChanged: BoundStatement)] = [:]
        for (index, change) in changes {
            let table = schema.tables[change.name.table]
            let pair = try statements[change.name.table] ?? existence(in: table)
            statements[change.name.table] = pair
            let isNew = change.operation == .create
            var flags = (exists: false, isLater: false)
            try (isNew ? pair.isNew : pair.isChanged).run { statement in
                bindKey(change.name, of: table, to: statement)
                guard !isNew else { return }
                statement.bind(change.name.key, at: Int32(table.key.count + 1))
                statement.bind(change.base, at: Int32(table.key.count + 2))
            } row: { row in
                flags.exists = RowValues.value(of: 0, in: row) == .integer(1)
                flags.isLater = !isNew && RowValues.value(of: 1, in: row) == .integer(1)
            }
            guard isNew ? flags.exists : flags.isLater || !flags.exists else { continue }
            contended[index] = (flags.exists, try flags.exists && change.operation != .delete ? row(change.name) : nil)
        }
        return contended
    }

    private func existence(in table: SyncedTable) throws -> (isNew: BoundStatement, isChanged: BoundStatement) {
        let exists = "EXISTS (SELECT 1 FROM main.\(SQLText.name(table.name)) WHERE \(Self.keyMatch(table)))"
        let count = table.key.count
        return (
            try BoundStatement("SELECT \(exists)", in: db),
            try BoundStatement(
                """
                SELECT \(exists), EXISTS (
                    SELECT 1
                    FROM tidemark_log
                    WHERE tbl = \(SQLText.literal(table.name)) AND key = ?\(count + 1) AND revision > ?\(count + 2))
                """,
                in: db)
        )
    }

    private func bindKey(_ name: RecordID, of table: SyncedTable, to statement: BoundStatement) {
        if table.keyKind == .integer { return statement.bind(Int64(name.key), at: 1) }
        for (place, part) in Value.parts(ofKey: name.key).enumerated() { statement.bind(part, at: Int32(place + 1)) }
    }

    /// The condition that a row has a key, whose values are the first parameters, as the columns compare values.
    static func keyMatch(_ table: SyncedTable) -> String {
        table.key.enumerated().map { "\(SQLText.name($1)) = ?\($0 + 1)" }.joined(separator: " AND ")
    }

    /// Returns the row whose key is spelled like the record's.
    private func row(_ name: RecordID) throws -> [Value]? {
        let table = schema.tables[name.table]
        let found = try RowValues.first(
            """
            SELECT \(SQLText.names(table.columns.map(\.name)))
            FROM main.\(SQLText.name(table.name))
            WHERE \(Self.keyMatch(table))
            """,
            Value.parts(ofKey: name.key),
            in: db)
        guard let row = found, schema.layouts[name.table].key(of: row).utf8.elementsEqual(name.key.utf8) else {
            return nil
        }
        return row
    }

    private func referrers(to names: [RecordID], max: Int) throws -> [RecordID] {
        var children: [RecordID] = []
        for name in names {
            let parent = schema.tables[name.table]
            for (place, child) in schema.tables.enumerated() {
                for reference in child.references where reference.parent == parent.name {
                    let columns = zip(reference.columns, reference.parentColumns).map {
                        "child_row.\(SQLText.name($0)) = parent_row.\(SQLText.name($1))"
                    }
                    let key = parent.key.enumerated().map { "parent_row.\(SQLText.name($1)) = ?\($0 + 1)" }
                    try RowValues.read(
                        """
                        SELECT \(RowJSON.key(child, alias: "child_row."))
                        FROM main.\(SQLText.name(parent.name)) AS parent_row
                        JOIN main.\(SQLText.name(child.name)) AS child_row ON \(columns.joined(separator: " AND "))
                        WHERE \(key.joined(separator: " AND "))
                        LIMIT \(max)
                        """,
                        Value.parts(ofKey: name.key),
                        in: db
                    ) { values in
                        if let key = values[0].text ?? values[0].integer.map(String.init) {
                            children.append(RecordID(table: place, key: key))
                        }
                    }
                }
            }
        }
        return children
    }

    private func otherHolders(of columns: [String], in place: Int, _ changeSet: PendingChangeSet) throws
        -> Set<String>
    {
        let table = schema.tables[place]
        let own = changeSet.records.filter { $0.table == place }
        var holders: Set<String> = []
        for record in own where record.operation != .delete {
            let ownPlaces = Dictionary(
                changeSet.columns(of: record).map { ($0.column.name, $0.place) },
                uniquingKeysWith: { first, _ in first })
            var values: [Value] = []
            var conditions: [String] = []
            for column in columns {
                if let place = ownPlaces[column], changeSet.delta(at: place) == nil {
                    values.append(try changeSet.value(at: place))
                    conditions.append("holder_row.\(SQLText.name(column)) = ?\(values.count)")
                } else if record.operation == .create {
                    let fill = table.columns.first { $0.name == column }?.defaultSQL ?? "NULL"
                    conditions.append("holder_row.\(SQLText.name(column)) = (\(fill))")
                } else {
                    // A record that sets only some columns keeps its row's values in the others.
                    let parts = Value.parts(ofKey: record.key)
                    let key = zip(table.key, parts.indices).map {
                        "own_row.\(SQLText.name($0)) = ?\(values.count + $1 + 1)"
                    }
                    values += parts
                    conditions.append(
                        """
                        holder_row.\(SQLText.name(column)) = (
                            SELECT own_row.\(SQLText.name(column))
                            FROM main.\(SQLText.name(table.name)) AS own_row
                            WHERE \(key.joined(separator: " AND ")))
                        """)
                }
            }
            try RowValues.read(
                """
                SELECT \(RowJSON.key(table, alias: "holder_row."))
                FROM main.\(SQLText.name(table.name)) AS holder_row
                WHERE \(conditions.joined(separator: " AND "))
                """,
                values,
                in: db
            ) { values in
                if let key = values[0].text, !key.utf8.elementsEqual(record.key.utf8) { holders.insert(key) }
            }
        }
        return holders
    }
}

/// The ids of new records: the server never assigns one twice, even after its record was deleted.
extension ZoneTransaction {
    package func ids(_ question: IDQuestion) throws -> IDAnswer {
        var answer = IDAnswer()
        switch question {
        case .next(let wanted): answer.next = try freeIDs(wanted)
        case .lent(let tables): answer.lent = try lentIDs(of: tables)
        }
        return answer
    }

    /// Returns the next ids of tables up to the end of the server's place, however many are needed.
    private func freeIDs(_ wanted: [Int: WantedIDs]) throws -> [Int: [ClosedRange<Int64>]] {
        let places = wanted.keys.sorted()
        guard !places.isEmpty else { return [:] }
        let known = places.map { place in
            let table = schema.tables[place]
            let name = SQLText.literal(table.name)
            let highest = "(\(highestSQL(of: table, "1", "\(TemporaryID.assignedMax)")))"
            return """
                SELECT \(place), (SELECT next FROM tidemark_identity WHERE tbl = \(name)),
                    (SELECT number > 0 FROM tidemark_lent WHERE id = 1), \(highest)
                """
        }
        var next: [Int: [ClosedRange<Int64>]] = [:]
        var rows: [[Value]] = []
        try RowValues.read(known.joined(separator: " UNION ALL "), in: db) { rows.append($0) }
        for values in rows {
            guard let place = values[0].integer.map(Int.init), let wish = wanted[place] else { continue }
            next[place] = try ids(of: schema.tables[place], from: wish.least, values)
        }
        return next
    }

    /// Returns the next ids of a table; `known` is its row of ``freeIDs(_:)``.
    private func ids(of table: SyncedTable, from least: Int64, _ known: [Value]) throws -> [ClosedRange<Int64>] {
        let lends = known[2] == .integer(1)
        let highest = known[3].integer ?? 0
        let first: Int64
        if planted(PlantedBug.reusesIds) {
            first = least
        } else if let stored = known[1].integer, stored <= TemporaryID.assignedMax {
            first = max(least, stored)
        } else {
            // The first id of this table follows all adopted ones. A gap among them may be the id of a
            // deleted record, to which a column without a declared reference still refers.
            first = max(least, highest + 1)
        }
        let from = { (id: Int64) in lends ? IDLayout.wide.own(from: id) : Self.all(from: id) }
        var ids = from(first)
        while highest >= first, let place = ids, let taken = try highestID(of: table, in: place) {
            ids = from(taken + 1)
        }
        return ids.map { [$0] } ?? []
    }

    private static func all(from first: Int64) -> ClosedRange<Int64>? {
        first <= TemporaryID.assignedMax ? first...TemporaryID.assignedMax : nil
    }

    /// Returns the highest id in a range that a row has, or that AUTOINCREMENT remembers.
    private func highestID(of table: SyncedTable, in ids: ClosedRange<Int64>) throws -> Int64? {
        try Int64.fetchOne(
            db.cachedStatement(sql: highestSQL(of: table, "?1", "?2")), arguments: [ids.lowerBound, ids.upperBound])
    }

    private func highestSQL(of table: SyncedTable, _ first: String, _ last: String) -> String {
        let id = SQLText.name(table.key[0])
        let highest = """
            SELECT max(\(id)) AS id FROM main.\(SQLText.name(table.name)) WHERE \(id) BETWEEN \(first) AND \(last)
            """
        guard table.isAutoincrement else { return highest }
        let name = SQLText.literal(table.name)
        return """
            SELECT max(id) FROM (\(highest)
                UNION ALL SELECT seq AS id FROM sqlite_sequence WHERE name = \(name) AND seq BETWEEN \(first) AND \(last))
            """
    }

    private func lentIDs(of tables: [String]) throws -> [String: [LentIDs]] {
        let number = try Int64.fetchOne(
            db.cachedStatement(
                sql: """
                    INSERT INTO tidemark_lent VALUES (1, 1)
                    ON CONFLICT (id) DO UPDATE SET number = number + 1
                    RETURNING number
                    """)
        )
        let place = planted(PlantedBug.lendsPlacesTwice) ? 1 : number
        return tables.compactMap { schema.byName[$0] }.reduce(into: [:]) { lent, table in
            lent[table.name] = table.keyKind == .integer ? place.map { IDLayout.wide.lent($0) } : []
        }
    }
}
