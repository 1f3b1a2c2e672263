import GRDB
import TidemarkCore

/// Replaces unique values by placeholders, only where other records take them: a program's triggers see each update.
struct ParkValues {
    private let db: Database
    private let schema: SyncSchema
    private let place: Int
    private let table: SyncedTable
    private let changeSets: [PendingChangeSet]
    /// The columns that foreign keys refer to.
    private let referencedColumns: Set<String>

    init(_ db: Database, schema: SyncSchema, table place: Int, changeSets: [PendingChangeSet]) {
        self.db = db
        self.schema = schema
        self.place = place
        table = schema.tables[place]
        self.changeSets = changeSets
        referencedColumns = Set(schema.references(to: table.name).flatMap(\.reference.parentColumns))
    }

    /// Parks unique values that a record leaves and another takes; returns the values of parked columns by record.
    func park(_ leaving: [ChangeWriter.Item], taking: [ChangeWriter.Item]) throws -> [RecordID: [Int: Value]] {
        guard !leaving.isEmpty, !taking.isEmpty, !table.uniques.isEmpty || table.hasComputedUniques else { return [:] }
        let adding = Set(
            taking.flatMap { item in
                let changeSet = changeSets[item.changeSet]
                return changeSet.columns(of: changeSet.records[item.record]).filter {
                    changeSet.delta(at: $0.place) != nil
                }.map(\.column.place)
            }
        )
        let uniqueNames = Set(table.uniques.flatMap { $0 })
        let parkable = schema.layouts[place].valuePlaces.filter { !adding.contains($0) }
        let constrained = parkable.filter { uniqueNames.contains(table.columns[$0].name) }
        // A computed value may depend on any column.
        let columns = table.hasComputedUniques ? parkable : constrained
        guard !columns.isEmpty else { return [:] }
        let taken = try takenValues(taking, of: constrained, adding: adding)
        guard table.sql.uppercased().contains("CHECK") else {
            return try park(leaving, columns: columns, orElse: constrained, taken: taken)
        }
        try ConnectionFlag.ignoreCheckConstraints.set(true, in: db)
        let outcome = Result { try park(leaving, columns: columns, orElse: constrained, taken: taken) }
        try ConnectionFlag.ignoreCheckConstraints.set(false, in: db)
        return try outcome.get()
    }

    /// Returns the values that records take, in canonical JSON, by column; nil where they are hard to tell.
    private func takenValues(_ taking: [ChangeWriter.Item], of constrained: [Int], adding: Set<Int>) throws
        -> [Int: Set<[UInt8]>]?
    {
        let hasOwnCollation = ([table.sql] + table.indexSQL).contains { SQLText.hasKeyword("COLLATE", in: $0) }
        let addingNames = Set(adding.map { table.columns[$0].name })
        let hasSums = table.uniques.contains { !addingNames.isDisjoint(with: $0) }
        guard !table.hasComputedUniques, !hasOwnCollation, !hasSums else { return nil }
        var taken = Dictionary(uniqueKeysWithValues: constrained.map { ($0, Set<[UInt8]>()) })
        let filled = constrained.filter { table.columns[$0].defaultSQL != nil }
        let partial = constrained.filter(isPartial)
        for item in taking {
            let changeSet = changeSets[item.changeSet]
            let record = changeSet.records[item.record]
            let newValues = try newValues(of: record, in: changeSet)
            for (column, value) in newValues where taken[column] != nil {
                guard let value = stored(value, in: column) else { return nil }
                if let form = Self.form(value) { taken[column]?.insert(form) }
            }
            if record.operation == .create, !filled.allSatisfy({ newValues[$0] != nil }) { return nil }
            // A change to another column can bring a present value into a partial index.
            guard record.operation == .update, !partial.isEmpty, let row = try presentRow(record) else { continue }
            for column in partial where newValues[column] == nil {
                if let form = Self.form(row[column]) { taken[column]?.insert(form) }
            }
        }
        return taken
    }

    private func newValues(of record: PendingChangeSet.Record, in changeSet: PendingChangeSet) throws -> [Int: Value] {
        var values: [Int: Value] = [:]
        for (place, column) in changeSet.columns(of: record) where changeSet.delta(at: place) == nil {
            values[column.place] = try changeSet.value(at: place)
        }
        return values
    }

    /// Returns a value as the column stores it; nil where that is hard to tell.
    private func stored(_ value: Value, in column: Int) -> Value? {
        switch (value, table.columns[column].affinity) {
        case (.integer(let number), "REAL"): .real(Double(number))
        case (.integer, "TEXT"), (.real, "TEXT"): nil
        case (.text(let text), "INTEGER"), (.text(let text), "REAL"), (.text(let text), "NUMERIC"):
            // SQLite makes a number of it.
            Double(text.filter { !$0.isWhitespace }) == nil ? value : nil
        default: value
        }
    }

    /// Returns a stored value as text in which 5 and 5.0 are the same; nil for NULL, which equals no value.
    private static func form(_ value: Value) -> [UInt8]? {
        switch value {
        case .null: nil
        case .real(let number): (Int64(exactly: number).map(Value.integer) ?? value).canonicalJSON
        case .integer, .text, .rawText, .blob: value.canonicalJSON
        }
    }

    /// Parks `columns`, or only `fallback` if a computed value rejects placeholders, so that a swap of those fails.
    private func park(
        _ leaving: [ChangeWriter.Item], columns: [Int], orElse fallback: [Int], taken: [Int: Set<[UInt8]>]?
    ) throws -> [RecordID: [Int: Value]] {
        var parkedValues: [RecordID: [Int: Value]] = [:]
        for (number, item) in leaving.enumerated() {
            let changeSet = changeSets[item.changeSet]
            let record = changeSet.records[item.record]
            guard let row = try presentRow(record) else { continue }
            let moving = try moving(columns, by: record, of: changeSet, from: row)
            // Another record may take a unique pair, although this one leaves only half of the pair.
            let isTaken = taken?.contains { column, values in Self.form(row[column]).map(values.contains) ?? false }
            guard !moving.isEmpty, isTaken ?? true else { continue }
            do { try park(record, moving, number: number) } catch let error as DatabaseError
                where table.hasComputedUniques && error.isPlaceholderRejection
            {
                // The failed statement has no effect.
                try park(record, moving.filter(fallback.contains), number: number)
            }
            for column in moving where record.operation == .update {
                parkedValues[RecordID(table: place, key: record.key), default: [:]][column] = row[column]
            }
        }
        return parkedValues
    }

    private func presentRow(_ record: PendingChangeSet.Record) throws -> [Value]? {
        try RowValues.first(
            """
            SELECT \(SQLText.names(table.columns.map(\.name)))
            FROM main.\(SQLText.name(table.name))
            WHERE \(ChangeWriter.keyMatch(table))
            """,
            Value.parts(ofKey: record.key),
            in: db)
    }

    /// Returns the columns whose values a record leaves; those of a partial index leave with any other column.
    private func moving(
        _ columns: [Int], by record: PendingChangeSet.Record, of changeSet: PendingChangeSet, from row: [Value]
    ) throws -> [Int] {
        guard record.operation == .update else { return columns }
        let newValues = try newValues(of: record, in: changeSet)
        return columns.filter { column in
            isPartial(column) || newValues[column].map { !$0.isSame(as: row[column]) } ?? false
        }
    }

    /// Whether a column is unique in some rows only, so that a change to other columns can collide.
    private func isPartial(_ column: Int) -> Bool {
        if planted(PlantedBug.overlooksPartialIndexes) { return false }
        return table.partiallyUnique?.contains(table.columns[column].name) ?? false
    }

    private func park(_ record: PendingChangeSet.Record, _ columns: [Int], number: Int) throws {
        guard !columns.isEmpty else { return }
        let targets = columns.map { place in
            let column = table.columns[place]
            let isReferenced = referencedColumns.contains(column.name)
            return "\(SQLText.name(column.name)) = \(column.placeholder(number: "?1", isReferenced: isReferenced))"
        }
        let match = table.key.enumerated().map { "\(SQLText.name($1)) = ?\($0 + 2)" }
        let sql = """
            UPDATE \(table.abortClause) main.\(SQLText.name(table.name))
            SET \(targets.joined(separator: ", "))
            WHERE \(match.joined(separator: " AND "))
            """
        let key = Value.parts(ofKey: record.key)
        try RowValues.read(sql, [.integer(Int64(number))] + key, in: db) { _ in }
    }
}

extension SyncedTable.Column {
    private static let realPlaceholderMin: Int64 = -(1 << 53)
    private static let integerPlaceholderMin: Int64 = -(1 << 62)

    /// Returns the SQL of a placeholder that fits the type and equals no other value; `number` is SQL, unique per row.
    ///
    /// NULLs never collide. But if a referenced value becomes NULL, its children lose the reference. Text placeholders
    /// are JSON, because expressions may read JSON. No placeholder is a mere parameter: the text of a statement without
    /// CHECK constraints must differ from that of an update, which shares the cache.
    func placeholder(number: String, isReferenced: Bool) -> String {
        guard isNotNull || isReferenced else { return "NULL" }
        let type = type.uppercased()
        if ["REAL", "DOUB", "FLOA"].contains(where: type.contains), !type.contains("INT") {
            return "\(Self.realPlaceholderMin) + \(number)"
        }
        if ["INT", "NUM", "DEC"].contains(where: type.contains) { return "\(Self.integerPlaceholderMin) + \(number)" }
        let text = #"'"tidemark parked ' || \#(number) || '"'"#
        return type.contains("BLOB") ? "CAST(\(text) AS BLOB)" : text
    }
}

extension DatabaseError {
    /// Whether an expression or its constraint failed; not a trigger, which may have ended the transaction.
    var isPlaceholderRejection: Bool {
        switch resultCode {
        case .SQLITE_ERROR: true
        case .SQLITE_CONSTRAINT: extendedResultCode != .SQLITE_CONSTRAINT_TRIGGER
        default: false
        }
    }
}
