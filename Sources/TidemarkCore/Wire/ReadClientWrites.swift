/// A write to one record by a client without rows: its key and values are the JSON that the client sent.
package struct ClientWrite: Sendable {
    package let table: String
    package let operation: Operation
    /// The key, or a temporary id of a new record.
    package let key: String
    /// The revision on which the change is based; nil for the record as it is when the change is judged.
    package let base: Int64?
    package let values: [(column: String, json: String)]

    package init(
        table: String, operation: Operation, key: String, base: Int64?, values: [(column: String, json: String)]
    ) {
        self.table = table
        self.operation = operation
        self.key = key
        self.base = base
        self.values = values
    }
}

extension ChangeSetReader {
    /// Reads writes of a client without rows as one change set, with the checks of a text; throws the first fault.
    package func changeSet(of writes: [ClientWrite]) throws(TidemarkError) -> PendingChangeSet {
        var changeSet = ChangeSet(index: 0, names: names)
        var values: [Value] = []
        var written: Set<RecordID> = []
        for write in writes {
            guard let place = names.places[WireName.member(table: write.table)] else {
                throw .unknownTable(write.table)
            }
            do throws(TidemarkError) {
                let key = try read(write.key) { (reader) throws(TidemarkError) in
                    try RecordKeyReader(names.tables[place]).key(&reader, bound)
                }
                guard written.insert(RecordID(table: place, key: key)).inserted else { throw Self.repeated(key) }
                var record = ChangeSet.Record(table: place, operation: write.operation, key: key, base: write.base)
                let first = values.count
                for member in write.values {
                    do throws(TidemarkError) {
                        let column = try column(member.column, of: place)
                        values.append(try value(member.json, of: column))
                        changeSet.values.append(.init(column: UInt32(column.place), cell: Cell(.null, 0..<0)))
                    } catch { throw error.within(.init(key: key, column: member.column)) }
                }
                record.values = first..<values.count
                changeSet.records.append(record)
            } catch { throw error.within(.init(table: write.table)) }
        }
        sort(&changeSet.records)
        try SyncRequest.Envelope.refuseForeignRecords(changeSet.records, names)
        return PendingChangeSet(changeSet, values: values)
    }

    private func column(_ name: String, of table: Int) throws(TidemarkError) -> WireNames.Column {
        let member = WireName.member(column: name)
        guard let column = names.tables[table].columns[member], !column.isKey else { throw Self.unknownColumn(member) }
        return column
    }

    private func value(_ json: String, of column: WireNames.Column) throws(TidemarkError) -> Value {
        try read(json) { (reader) throws(TidemarkError) in
            let cell = try reader.cell()
            try check(cell, of: column, reader)
            do throws(InvalidValue) { return try reader.value(of: cell) } catch { throw Self.unfit(error.reason) }
        }
    }

    private func read<Success>(_ json: String, _ body: (inout JSONReader) throws(TidemarkError) -> Success)
        throws(TidemarkError) -> Success
    {
        try Array(json.utf8).withUnsafeBufferPointer { (bytes) throws(TidemarkError) -> Success in
            var reader = try JSONReader(bytes, stringMax: bound?.stringMax ?? .max)
            let success = try body(&reader)
            try reader.finish()
            return success
        }
    }
}
