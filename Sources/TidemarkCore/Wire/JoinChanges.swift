extension PendingChangeSet {
    /// Joins change sets of one text, in their order, to one with the same outcome: it changes no record twice.
    package static func joining(_ changeSets: [ChangeSet], _ reader: JSONReader, names: WireNames) throws(InvalidValue)
        -> PendingChangeSet
    {
        guard changeSets.count != 1 else { return PendingChangeSet(changeSets[0], reader) }
        var all = ChangeSet(index: 0, names: names)
        all.records.reserveCapacity(changeSets.reduce(0) { $0 + $1.records.count })
        all.values.reserveCapacity(changeSets.reduce(0) { $0 + $1.values.count })
        for changeSet in changeSets {
            let offset = all.values.count
            all.values += changeSet.values
            for (place, delta) in changeSet.deltas { all.deltas[place + offset] = delta }
            for record in changeSet.records {
                var record = record
                record.values = record.values.lowerBound + offset..<record.values.upperBound + offset
                all.records.append(record)
            }
        }
        var joined = PendingChangeSet(all, reader)
        try joined.joinRepeatedRecords()
        return joined
    }

    /// Makes one change of all changes of a record, in their order: its last creation or deletion ends those before it.
    ///
    /// Throws if a number is added to a value that is no integer, or if their sum is too large.
    fileprivate mutating func joinRepeatedRecords() throws(InvalidValue) {
        var places: [RecordID: Int] = [:]
        var joined: [Record] = []
        joined.reserveCapacity(records.count)
        // The places of the values of records that change several times, by column.
        var repeated: [Int: [UInt32: Int]] = [:]
        for record in records {
            let name = RecordID(table: record.table, key: record.key)
            guard let place = places[name] else {
                places[name] = joined.count
                joined.append(record)
                continue
            }
            var columns = record.operation == .update ? repeated[place] ?? byColumn(joined[place]) : [:]
            for (column, value) in byColumn(record) { columns[column] = try join(columns[column], with: value) }
            repeated[place] = columns
            // An update of a deleted record does not bring it back.
            if record.operation != .update || joined[place].operation == .delete {
                let isDeletion = record.operation == .delete && !planted(PlantedBug.coalescesDeletionAway)
                joined[place].operation = isDeletion ? .delete : record.operation == .create ? .create : .update
            }
        }
        for (place, columns) in repeated.sorted(by: { $0.key < $1.key }) {
            let first = changeSet.values.count
            for (_, value) in columns.sorted(by: { $0.key < $1.key }) { copyValue(at: value) }
            joined[place].values = first..<changeSet.values.count
        }
        records = joined
    }

    private func byColumn(_ record: Record) -> [UInt32: Int] {
        Dictionary(record.values.map { (changeSet.values[$0].column, $0) }, uniquingKeysWith: { $1 })
    }

    /// Returns the place of a value after an earlier one of its column.
    private mutating func join(_ earlier: Int?, with later: Int) throws(InvalidValue) -> Int {
        guard let earlier, let added = delta(at: later) else { return later }
        let isDelta = delta(at: earlier) != nil
        let base = isDelta ? delta(at: earlier) : try value(at: earlier).integer
        guard let base, case let (sum, isTooLarge) = base.addingReportingOverflow(added), !isTooLarge else {
            throw InvalidValue(reason: "is no integer to which a change can add, or becomes too large")
        }
        let place = copyValue(at: later)
        changeSet.deltas[place] = isDelta ? sum : nil
        if !isDelta { replaced[place] = .integer(sum) }
        return place
    }

    @discardableResult private mutating func copyValue(at place: Int) -> Int {
        let copy = changeSet.values.count
        changeSet.values.append(changeSet.values[place])
        if !decided.isEmpty { decided.append(decided[place]) }
        if let delta = changeSet.deltas[place] { changeSet.deltas[copy] = delta }
        if let value = replaced[place] { replaced[copy] = value }
        return copy
    }
}

/// Makes a change set of values that are in no text: images of records, the outbox, decisions of a person.
package struct ChangeSetBuilder {
    private let layouts: [RowLayout]
    private var changeSet: ChangeSet
    private var values: [Value] = []

    package init(_ schema: SyncSchema) {
        layouts = schema.layouts
        changeSet = ChangeSet(index: 0, names: schema.wireNames)
    }

    package var count: Int { changeSet.records.count }

    /// Adds a change of a record with the values of columns by their places in ``SyncedTable/columns``.
    package mutating func add(_ operation: Operation, _ record: RecordID, values row: some Sequence<(Int, Value)>) {
        let first = values.count
        for (column, value) in row { append(value, to: column) }
        add(operation, record, since: first)
    }

    /// Adds a change of a record with the columns of a JSON object, which may have deltas.
    ///
    /// It leaves out columns that the table does not have. Throws `internalFailure` if the text is no row.
    package mutating func add(_ operation: Operation, _ record: RecordID, json: String?) throws(TidemarkError) {
        let first = values.count
        if let json {
            try layouts[record.table].readMembers(of: json, key: record.key) {
                (column, reader, cell) throws(InvalidValue) in
                let delta = reader.delta(of: cell).number
                if let delta { changeSet.deltas[values.count] = delta }
                append(try delta == nil ? reader.value(of: cell) : .null, to: column)
            }
        }
        add(operation, record, since: first)
    }

    private mutating func append(_ value: Value, to column: Int) {
        values.append(value)
        changeSet.values.append(.init(column: UInt32(column), cell: Cell(.null, 0..<0)))
    }

    private mutating func add(_ operation: Operation, _ record: RecordID, since first: Int) {
        var change = ChangeSet.Record(table: record.table, operation: operation, key: record.key)
        change.values = first..<values.count
        changeSet.records.append(change)
    }

    /// Returns the change set, if no record is in it twice.
    package consuming func build() -> PendingChangeSet { PendingChangeSet(changeSet, values: values) }

    /// Returns the change set with one change of each record; throws if a number cannot be added.
    package consuming func buildJoined() throws(InvalidValue) -> PendingChangeSet {
        var joined = build()
        try joined.joinRepeatedRecords()
        return joined
    }
}
