package import GRDB
package import TidemarkCore

/// Stages change sets: a row for each record, and one for each of its values.
package struct ChangeSetStaging {
    private let db: Database
    private let names: WireNames
    private let reader: JSONReader

    /// Empties the staging tables of a prepared connection, and stages a JSON array of change sets under their indexes.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` with the place of the first fault.
    package static func stage(
        _ body: [UInt8], at place: Int = 0, _ schema: SyncSchema, unknownNames: ChangeSetReader.UnknownNames = .refuse,
        in db: Database
    ) throws {
        try StagingTables.clear(in: db)
        try body.withUnsafeBufferPointer { bytes in
            let whole = try JSONReader(bytes)
            var reader = whole.reader(at: place)
            var changes = ChangeSetReader(schema.wireNames, unknownNames: unknownNames)
            let sets = try changes.changeSets(&reader)
            if place == 0 { try reader.finish() }
            let staging = ChangeSetStaging(db: db, names: schema.wireNames, reader: reader)
            for set in sets {
                try staging.stageMembers(of: set)
                try staging.stage(set, ord: set.index)
            }
            try stageKeys(in: db)
        }
    }

    package func stage(_ set: ChangeSet, ord: Int) throws {
        let insert = try BoundStatement(
            """
            INSERT INTO temp.tidemark_staged (ord, tbl, operation, key, attributes, base, old_key)
            VALUES (?, ?, ?, ?, ?, ?, ?)
            """,
            in: db)
        let insertValue = try BoundStatement(
            "INSERT INTO temp.tidemark_staged_cell (rec, col, value) VALUES (?, ?, ?)", in: db)
        let insertDelta = try BoundStatement(
            "INSERT INTO temp.tidemark_staged_delta (rec, col, delta) VALUES (?, ?, ?)", in: db)
        for record in set.records {
            try insert.run { row in
                row.bind(ord, at: 1)
                row.bind(names.tables[record.table].name, at: 2)
                row.bind(record.operation.rawValue, at: 3)
                row.bind(record.key, at: 4)
                row.bind(record.attributes.map { reader.compactText(in: $0, of: set) }, at: 5)
                row.bind(record.base, at: 6)
                row.bind(record.authorsKey, at: 7)
            }
            let rec = db.lastInsertedRowID
            for place in record.values {
                let column = set.column(at: place, of: record)
                if let delta = set.deltas[place] {
                    try insertDelta.run { row in
                        row.bind(rec, at: 1)
                        row.bind(column.name, at: 2)
                        row.bind(delta, at: 3)
                    }
                } else {
                    try insertValue.run { row in
                        row.bind(rec, at: 1)
                        row.bind(column.name, at: 2)
                        try row.bind(set.values[place].cell, of: reader, at: 3)
                    }
                }
            }
        }
    }

    package static func stageKeys(in db: Database) throws { try db.cachedStatement(sql: keyCellSQL()).execute() }

    /// Stages the members that are not tables, with types as `json_type` names them, and the names of the tables.
    private func stageMembers(of set: ChangeSet) throws {
        let ord = set.index
        try BoundStatement("INSERT INTO temp.tidemark_staged_set (ord) VALUES (?)", in: db).run { $0.bind(ord, at: 1) }
        let insert = try BoundStatement(
            "INSERT INTO temp.tidemark_staged_member (ord, name, tbl, type, value) VALUES (?, ?, ?, ?, ?)", in: db)
        for (name, cell) in set.members {
            let isList = [.array, .object].contains(cell.kind)
            try insert.run { row in
                row.bind(ord, at: 1)
                row.bind(name, at: 2)
                row.bind(cell.kind.jsonType, at: 4)
                if isList {
                    row.bind(reader.compactText(in: cell.range, of: set), at: 5)
                } else if [.text, .escapedText].contains(cell.kind) {
                    row.bind(reader.plainText(of: cell), at: 5)
                } else if let integer = reader.integer(of: cell) {
                    row.bind(integer, at: 5)
                } else if let truth = reader.truth(of: cell) {
                    row.bind(truth ? 1 : 0, at: 5)
                } else {
                    // SQLite reads an integer beyond 64 bits as a real, too.
                    row.bind(Double(String(decoding: reader.bytes[cell.range], as: UTF8.self)), at: 5)
                }
            }
        }
        for place in set.tables {
            let table = names.tables[place].name
            try insert.run { row in
                row.bind(ord, at: 1)
                row.bind(WireName.member(table: table), at: 2)
                row.bind(table, at: 3)
                row.bind("object", at: 4)
            }
        }
    }

    /// Returns a statement that stages the columns of keys as values; `condition` selects rows `staged`.
    package static func keyCellSQL(where condition: String = "true") -> String {
        """
        INSERT INTO temp.tidemark_staged_cell (rec, col, value)
        SELECT staged.rec, key_column.col, CASE
            WHEN known_table.kind = 'integer' THEN CAST(staged.key AS INTEGER)
            WHEN substr(staged.key, 1, 1) = '[' THEN tidemark_decode(staged.key -> key_column.key_position)
            ELSE tidemark_decode(staged.key) END
        FROM temp.tidemark_staged AS staged
        JOIN temp.tidemark_table AS known_table ON known_table.tbl = staged.tbl
        JOIN temp.tidemark_column AS key_column ON key_column.tbl = staged.tbl AND key_column.key_position >= 0
        WHERE \(condition)
        """
    }

    /// Returns the number of a change set from the index of its request among several, and its own.
    package static func ord(list: Int, index: Int) -> Int { list << listShift | index }
    /// Returns the index of the request with a change set, from its number.
    package static func list(of ord: Int) -> Int { ord >> listShift }
    /// Returns the SQL of that index.
    package static func list(of ord: String) -> String { "(\(ord) >> \(listShift))" }
    /// Returns the index of a change set in its request, from its number.
    package static func index(of ord: Int) -> Int { ord & (1 << listShift - 1) }

    /// The bits of a change set's number that contain its index.
    private static let listShift = 20
}

extension Cell.Kind {
    /// The type as SQLite's `json_type` names it.
    fileprivate var jsonType: String {
        switch self {
        case .null: "null"
        case .true: "true"
        case .false: "false"
        case .integer: "integer"
        case .real: "real"
        case .text, .escapedText: "text"
        case .object: "object"
        case .array: "array"
        }
    }
}
