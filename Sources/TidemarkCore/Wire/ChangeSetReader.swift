/// Reads change sets, and refuses every name, key and value that the schema does not allow.
///
/// One pass over the text. A table's part may have its members in any order, so keys and attributes are matched at its
/// end. An error refuses all change sets, and names the place of the first fault in the order of the text.
package struct ChangeSetReader {
    package enum UnknownNames: Sendable {
        case refuse
        /// Ignore dropped tables and columns, which old revisions still name; a device does this.
        case ignoreDropped
    }

    let names: WireNames
    let unknownNames: UnknownNames
    /// Whether updates may add to columns with the policy `add`: a server takes deltas and sends none.
    let takesDeltas: Bool
    /// The largest value of a column; nil: of any size.
    let bound: ValueBound?
    /// The members of the last record with their columns: most records of a table have the same ones.
    private var layout: [(name: JSONReader.Text, column: WireNames.Column)] = []

    package init(
        _ names: WireNames, unknownNames: UnknownNames = .refuse, takesDeltas: Bool = false, bound: ValueBound? = nil
    ) {
        self.names = names
        self.unknownNames = unknownNames
        self.takesDeltas = takesDeltas && names.hasAddingColumns
        self.bound = bound
    }

    /// Reads an array of change sets; throws the first fault, or if there are more than `max`.
    package mutating func changeSets(_ reader: inout JSONReader, max: Int? = nil) throws(TidemarkError) -> [ChangeSet] {
        var sets: [ChangeSet] = []
        try reader.array { (reader) throws(TidemarkError) in
            if let max, sets.count == max {
                throw TidemarkError(
                    .tooLarge, "The request has more than \(max) change sets.", fix: "Send at most \(max) at a time.")
            }
            sets.append(try changeSet(&reader, index: sets.count))
        }
        return sets
    }

    private mutating func changeSet(_ reader: inout JSONReader, index: Int) throws(TidemarkError) -> ChangeSet {
        guard try reader.kind() == .object else {
            throw TidemarkError(
                .malformedRequest, "An element of changeSets is not an object.",
                fix: #"A change set is {"types":["t"],"t":{"create":[],"update":[],"delete":[],"attributes":{}}}."#)
        }
        let start = reader
        var set = ChangeSet(index: index, names: names)
        do throws(TidemarkError) {
            set.range = try reader.object { (reader, name) throws(TidemarkError) in
                let member = reader.text(of: name)
                if WireName.changeSetMembers.contains(member) {
                    set.members[member] = try reader.cell()
                } else {
                    try table(member, &reader, into: &set)
                }
            }
            try checkTypes(of: set, reader)
        } catch { throw error.within(.init(changeSet: index, id: Self.id(ofSetAt: start))) }
        set.hasWhiteSpace = reader.whiteSpace > start.whiteSpace
        sort(&set.records)
        return set
    }

    /// Orders records by their tables' and operations' names, and else as in the text.
    func sort(_ records: inout [ChangeSet.Record]) {
        let isBefore = { (one: ChangeSet.Record, other: ChangeSet.Record) -> Bool in
            if one.table == other.table { return one.operation.rawValue < other.operation.rawValue }
            return names.tables[one.table].name.utf8.lexicographicallyPrecedes(names.tables[other.table].name.utf8)
        }
        // Most change sets have one table and one operation.
        guard zip(records, records.dropFirst()).contains(where: { isBefore($1, $0) }) else { return }
        let order = records.indices.sorted { one, other in
            if isBefore(records[one], records[other]) { return true }
            return one < other && !isBefore(records[other], records[one])
        }
        records = order.map { records[$0] }
    }

    /// Returns the id of a change set that has a fault, so that a device can set it aside.
    private static func id(ofSetAt start: JSONReader) -> String? {
        var reader = start
        var id: String?
        do throws(TidemarkError) {
            try reader.object { (reader, name) throws(TidemarkError) in
                let cell = try reader.cell()
                if reader.equals(name, "id"), cell.kind == .text {
                    id = String(decoding: reader.bytes[cell.range], as: UTF8.self).lowercased()
                }
            }
        } catch { return id.flatMap { ChangeSetID.isValid($0) ? $0 : nil } }
        return id.flatMap { ChangeSetID.isValid($0) ? $0 : nil }
    }

    // MARK: Tables

    private mutating func table(_ member: String, _ reader: inout JSONReader, into set: inout ChangeSet)
        throws(TidemarkError)
    {
        guard let place = names.places[member] else {
            let name = WireName.name(of: member)
            guard unknownNames == .ignoreDropped, names.dropped.contains(name) else { throw .unknownTable(name) }
            try reader.skip()
            return
        }
        set.tables.append(place)
        do throws(TidemarkError) { try part(of: place, &reader, into: &set) } catch {
            throw error.within(.init(table: names.tables[place].name))
        }
    }

    static func unknownColumn(_ member: String) -> TidemarkError {
        TidemarkError(
            .unknownColumn, "The table has no such column, or it is part of the key.",
            fix: "Use the names of columns that are neither generated nor part of the primary key.",
            place: .init(column: member))
    }

    private static let wrongPart = TidemarkError(
        .malformedRequest, "A table's part has another form than create, update, delete, attributes.",
        fix: "create, update and delete are arrays of keys; attributes is an object of objects.")

    private mutating func part(of place: Int, _ reader: inout JSONReader, into set: inout ChangeSet)
        throws(TidemarkError)
    {
        guard try reader.kind() == .object else { throw Self.wrongPart }
        var places: [RecordID: Int] = [:]
        // The attributes from the first on that does not follow the records in their order.
        var others: [(name: JSONReader.Text, attributes: RecordAttributes)] = []
        var next = set.records.count
        layout.removeAll(keepingCapacity: true)
        try reader.object { (reader, name) throws(TidemarkError) in
            if reader.equals(name, "attributes") {
                guard try reader.kind() == .object else { throw Self.wrongPart }
                try reader.object(unchecked: true) { (reader, name) throws(TidemarkError) in
                    let attributes = try record(name, of: place, &reader, into: &set)
                    defer { next += 1 }
                    guard others.isEmpty, next < set.records.count, set.records[next].fits(attributes),
                        placeKey(name, of: place, in: reader).utf8.elementsEqual(set.records[next].key.utf8)
                    else { return others.append((name, attributes)) }
                    set.records[next].take(attributes)
                }
                return
            }
            guard let operation = Operation(rawValue: reader.text(of: name)), try reader.kind() == .array else {
                throw Self.wrongPart
            }
            try reader.array { (reader) throws(TidemarkError) in
                let key = try RecordKeyReader(names.tables[place]).key(&reader, bound)
                let id = RecordID(table: place, key: key)
                guard places.updateValue(set.records.count, forKey: id) == nil else { throw Self.repeated(key) }
                set.records.append(ChangeSet.Record(table: place, operation: operation, key: key))
            }
        }
        try match(others, to: places, of: place, in: reader, &set)
    }

    static func repeated(_ key: String) -> TidemarkError {
        TidemarkError(
            .malformedRequest, "A record appears twice in one change set.",
            fix: "List each key once, in one of create, update and delete.", place: .init(key: key))
    }

    /// Gives the records of a table's part their attributes.
    private func match(
        _ list: [(name: JSONReader.Text, attributes: RecordAttributes)], to places: [RecordID: Int], of table: Int,
        in reader: JSONReader, _ set: inout ChangeSet
    ) throws(TidemarkError) {
        let keys = RecordKeyReader(names.tables[table])
        for (name, attributes) in list {
            let key = try keys.key(named: name, in: reader)
            guard let place = places[RecordID(table: table, key: key)] else { throw Self.foreignAttributes(key) }
            let operation = set.records[place].operation
            guard set.records[place].attributes == nil else {
                throw JSONFault.repeatedName(key).within(.init(key: key))
            }
            if operation == .delete, attributes.hasValues || attributes.oldKey != nil {
                throw Self.foreignAttributes(key)
            }
            if let column = attributes.firstDelta, operation != .update {
                throw Self.wrongDelta.within(.init(key: key, column: column))
            }
            set.records[place].take(attributes)
        }
    }

    private static func foreignAttributes(_ key: String) -> TidemarkError {
        TidemarkError(
            .malformedRequest, "attributes has a member that is not an object, or has no created or updated record.",
            fix: "Give attributes only for keys that create or update of the same table lists.", place: .init(key: key))
    }

    // MARK: Records

    /// Reads the attributes of a record; `name` is its key.
    private mutating func record(
        _ name: JSONReader.Text, of table: Int, _ reader: inout JSONReader, into set: inout ChangeSet
    ) throws(TidemarkError) -> RecordAttributes {
        let keys = RecordKeyReader(names.tables[table])
        guard try reader.kind() == .object else { throw Self.foreignAttributes(try keys.key(named: name, in: reader)) }
        let start = reader.place
        let first = set.values.count
        var attributes = RecordAttributes(range: start..<start, hasValues: false)
        var index = 0
        do throws(TidemarkError) {
            let range = try reader.object { (reader, name) throws(TidemarkError) in
                if reader.equals(name, "revision") {
                    attributes.base = try Self.base(&reader)
                } else if reader.equals(name, "__oldId__") {
                    attributes.oldKey = try Self.oldKey(&reader)
                } else {
                    attributes.hasValues = true
                    try value(name, at: index, since: first, of: table, &reader, into: &set, and: &attributes)
                    index += 1
                }
            }
            attributes = RecordAttributes(
                range: range, base: attributes.base, oldKey: attributes.oldKey, values: first..<set.values.count,
                firstDelta: attributes.firstDelta, hasValues: attributes.hasValues)
        } catch { throw error.within(.init(key: placeKey(name, of: table, in: reader))) }
        return attributes
    }

    /// Returns a key in its canonical form, or as the text has it if it is no key.
    private func placeKey(_ name: JSONReader.Text, of table: Int, in reader: JSONReader) -> String {
        do throws(TidemarkError) { return try RecordKeyReader(names.tables[table]).key(named: name, in: reader) } catch
        {
            return reader.text(of: name)
        }
    }

    private static func base(_ reader: inout JSONReader) throws(TidemarkError) -> Int64 {
        let cell = try reader.cell()
        guard cell.kind == .integer, let base = reader.integer(in: cell.range), base >= 0 else {
            throw TidemarkError(
                .invalidValue, "revision is not a revision number.",
                fix: "revision is the revision of the record that the change is based on.",
                place: .init(column: "revision"))
        }
        return base
    }

    private static func oldKey(_ reader: inout JSONReader) throws(TidemarkError) -> String? {
        let cell = try reader.cell()
        switch cell.kind {
        case .null: return nil
        case .text, .escapedText:
            return reader.text(of: .init(range: cell.range, hasEscapes: cell.kind == .escapedText))
        default: return String(decoding: JSONParts.compact(reader.bytes[cell.range]), as: UTF8.self)
        }
    }

    // MARK: Values

    /// Reads a value of the record whose values begin at `first`.
    private mutating func value(
        _ name: JSONReader.Text, at index: Int, since first: Int, of table: Int, _ reader: inout JSONReader,
        into set: inout ChangeSet, and attributes: inout RecordAttributes
    ) throws(TidemarkError) {
        guard let column = try column(name, at: index, of: table, reader) else {
            try reader.skip()
            return
        }
        do throws(TidemarkError) {
            let cell = try reader.cell()
            var delta: Int64?
            if takesDeltas, column.adds, cell.kind == .object {
                let found = reader.delta(of: cell)
                if found.isDelta {
                    guard let number = found.number else { throw Self.wrongDelta }
                    delta = number
                    attributes.firstDelta = attributes.firstDelta ?? column.name
                }
            }
            if delta == nil { try check(cell, of: column, reader) }
            let canRepeat = names.tables[table].hasFormerNames || planted(PlantedBug.takesNamesTwice)
            if canRepeat, set.values[first...].contains(where: { Int($0.column) == column.place }) {
                guard planted(PlantedBug.takesNamesTwice) else { throw JSONFault.repeatedName(column.name) }
                return
            }
            if let delta { set.deltas[set.values.count] = delta }
            set.values.append(ChangeSet.Value(column: UInt32(column.place), cell: cell))
        } catch { throw error.within(.init(column: reader.text(of: name))) }
    }

    private static let wrongDelta = TidemarkError(
        .invalidValue, "A delta is not of the form that an update may have.",
        fix: #"Add by {"$add":-2}, with one 64-bit integer, in an update; a creation has values only."#)

    static func unfit(_ reason: String) -> TidemarkError {
        TidemarkError(
            .invalidValue, "A value \(reason).", fix: "PROTOCOL.md lists the JSON form of every SQLite value.")
    }

    /// Refuses a value that no column can hold, or that is too large.
    func check(_ cell: Cell, of column: WireNames.Column, _ reader: JSONReader) throws(TidemarkError) {
        switch cell.kind {
        case .null, .true, .false, .text: break
        case .integer:
            guard reader.integer(in: cell.range) != nil else {
                throw TidemarkError(
                    .invalidValue, "An integer is beyond 64 bits.",
                    fix: "SQLite's integers end at 9223372036854775807; send larger numbers as text.")
            }
        case .real, .escapedText, .object, .array:
            do throws(InvalidValue) { _ = try reader.value(of: cell) } catch { throw Self.unfit(error.reason) }
        }
        try bound?.check(cell, of: column.name, in: reader)
    }

    /// Returns the column of a member; nil if the device ignores it.
    private mutating func column(_ name: JSONReader.Text, at index: Int, of table: Int, _ reader: JSONReader)
        throws(TidemarkError) -> WireNames.Column?
    {
        if index < layout.count, reader.isSame(layout[index].name, name) { return layout[index].column }
        let member = reader.text(of: name)
        if unknownNames == .ignoreDropped, names.tables[table].dropped.contains(member) { return nil }
        guard let column = names.tables[table].columns[member], !column.isKey else { throw Self.unknownColumn(member) }
        if index < layout.count {
            layout[index] = (name, column)
        } else if index == layout.count {
            layout.append((name, column))
        }
        return column
    }

    // MARK: Types

    /// Refuses `types` that does not list exactly the change set's tables.
    private func checkTypes(of set: ChangeSet, _ reader: JSONReader) throws(TidemarkError) {
        guard let types = set.members["types"] else { return }
        let fix = "List in types exactly the tables that the change set has members for."
        var listed: Set<String> = []
        var isList = types.kind == .array
        if isList {
            var reader = reader.reader(at: types.range.lowerBound)
            try reader.array { (reader) throws(TidemarkError) in
                let cell = try reader.cell()
                isList = isList && [.text, .escapedText].contains(cell.kind)
                listed.insert(reader.text(of: .init(range: cell.range, hasEscapes: cell.kind == .escapedText)))
            }
        }
        guard isList else { throw TidemarkError(.malformedRequest, "types is not an array of strings.", fix: fix) }
        let present = Set(set.tables.map { WireName.member(table: names.tables[$0].name) })
        let isMissing = { (name: String) in !present.contains(name) && !names.dropped.contains(WireName.name(of: name))
        }
        if let name = listed.filter(isMissing).sorted().first {
            throw TidemarkError(
                .unknownTable, "types lists a table that this zone or the change set does not have.", fix: fix,
                place: .init(table: name))
        }
        if let name = present.subtracting(listed).sorted().first {
            throw TidemarkError(
                .malformedRequest, "The change set has a table that types does not list.", fix: fix,
                place: .init(table: WireName.name(of: name)))
        }
    }
}
