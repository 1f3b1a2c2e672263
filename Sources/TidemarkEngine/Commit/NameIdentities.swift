package import TidemarkCore

/// Gives new records permanent ids, and replaces temporary ids by permanent ones.
///
/// A device counts temporary ids down from -1, or takes them from the reserved region, in which an id means nothing
/// else. So small negative ids are followed in keys and declared references only, and ids of the reserved region in
/// every column: a generic relation, a log or a column without a foreign key holds a record's id as well.
package struct Identities {
    /// The permanent ids of the next new records; a value, so that ids of an uncommitted change set are free again.
    struct Assigner {
        private struct Table {
            /// The reserved ids, those that are next at the end.
            var ranges: [ClosedRange<Int64>] = []
            var next: Int64 = 1
            let wish: Wish
        }

        /// What the change sets of a group want of a table.
        struct Wish {
            /// The ids that they choose for new records.
            var chosen: Set<Int64> = []
            /// The number of their new records with temporary ids.
            var count = 0
        }

        private var tables: [Int: Table] = [:]

        /// The ids from which the next ones are sought, of the tables that have got some.
        private(set) var nextIDs: [Int: Int64] = [:]

        /// Forgets the next ids of a table, because others have taken some.
        mutating func forget(_ table: Int) { tables[table] = nil }

        /// Takes the next id of a table: no record has had it, and no change set of the group chooses it.
        ///
        /// `wishes` tells what the group wants, by table. The first time, the ids of all tables are reserved.
        mutating func take(
            of table: Int, _ wishes: @autoclosure () -> [Int: Wish], in transaction: some CommitTransaction
        ) throws -> Int64 {
            if tables[table] == nil { try reserve(wishes(), in: transaction) }
            var entry = tables.removeValue(forKey: table) ?? Table(wish: Wish(count: 1))
            while true {
                while let range = entry.ranges.last, entry.next > range.upperBound { entry.ranges.removeLast() }
                if entry.ranges.isEmpty {
                    let wanted = [table: WantedIDs(least: entry.next, count: max(1, entry.wish.count))]
                    entry.ranges = try transaction.nextIDs(wanted)[table, default: []].reversed()
                    guard !entry.ranges.isEmpty else { throw Self.exhausted(transaction.schema.tables[table]) }
                }
                let id = max(entry.next, entry.ranges[entry.ranges.count - 1].lowerBound)
                entry.next = id + 1
                if entry.wish.chosen.contains(id) { continue }
                tables[table] = entry
                nextIDs[table] = entry.next
                return id
            }
        }

        private mutating func reserve(_ wishes: [Int: Wish], in transaction: some CommitTransaction) throws {
            let unknown = wishes.filter { tables[$0.key] == nil && $0.value.count > 0 }
            let wanted = unknown.mapValues { WantedIDs(least: 1, count: $0.count) }
            for (table, ranges) in try transaction.nextIDs(wanted) {
                tables[table] = Table(ranges: ranges.reversed(), wish: unknown[table] ?? Wish())
            }
        }

        private static func exhausted(_ table: SyncedTable) -> TidemarkError {
            TidemarkError(
                .unavailable,
                "The table has no ids left for new records: they end at 2^51 - 1.",
                fix: """
                    Give its highest rows lower ids in the file, and serve a copy made with .dump of the app's tables.
                    """,
                place: .init(table: table.name))
        }
    }

    private let schema: SyncSchema
    private let rules: Footprint.Rules

    init(_ schema: SyncSchema, _ rules: Footprint.Rules) {
        self.schema = schema
        self.rules = rules
    }

    /// Returns the temporary ids that a change set refers to or names without creating their records.
    func wanted(by changeSet: PendingChangeSet) -> Set<TemporaryName> {
        var wanted: Set<TemporaryName> = []
        for record in changeSet.records {
            if record.operation != .create, let name = temporaryKey(record) { wanted.insert(name) }
            for (_, names) in references(of: record, in: changeSet) { wanted.formUnion(names) }
            for (_, names) in keyReferences(of: record) { wanted.formUnion(names) }
            for stray in strays(of: record, in: changeSet) { wanted.formUnion(stray.names) }
        }
        return wanted
    }

    func temporaryKey(_ record: PendingChangeSet.Record) -> TemporaryName? {
        let table = schema.tables[record.table]
        guard table.keyKind == .integer, record.key.utf8.first == UInt8(ascii: "-"), let id = Int64(record.key),
            id < table.lowestID
        else { return nil }
        return TemporaryName(table: record.table, id: id)
    }

    /// Returns the references of a record to temporary ids: the places of the values, and what each may name.
    private func references(of record: PendingChangeSet.Record, in changeSet: PendingChangeSet)
        -> [(place: Int, names: [TemporaryName])]
    {
        guard let references = rules.integerReferences[record.table], record.operation != .delete else { return [] }
        return changeSet.columns(of: record).compactMap { place, column in
            guard let parents = references[column.place], changeSet.delta(at: place) == nil,
                let id = changeSet.integer(at: place), id < 0
            else { return nil }
            let names = parents.filter { id < schema.tables[$0].lowestID }.map { TemporaryName(table: $0, id: id) }
            return names.isEmpty ? nil : (place, names)
        }
    }

    /// Returns the references in a record's composite key: the parts, and what each may name.
    private func keyReferences(of record: PendingChangeSet.Record) -> [(part: Int, names: [TemporaryName])] {
        let table = schema.tables[record.table]
        guard table.keyKind == .general, let references = rules.integerReferences[record.table],
            record.key.utf8.contains(UInt8(ascii: "-"))
        else { return [] }
        let places = schema.layouts[record.table].keyPlaces
        return Value.parts(ofKey: record.key).enumerated().compactMap { part, value in
            guard case .integer(let id) = value, id < 0, let parents = references[places[part]] else { return nil }
            let names = parents.filter { id < schema.tables[$0].lowestID }.map { TemporaryName(table: $0, id: id) }
            return names.isEmpty ? nil : (part, names)
        }
    }

    /// Returns the values of a record that may be temporary ids of the reserved region in other columns.
    ///
    /// A device negates temporary ids in keys and declared references only. In other columns they are as its file
    /// holds them, as integers or as whole texts.
    private func strays(of record: PendingChangeSet.Record, in changeSet: PendingChangeSet)
        -> [(place: Int, names: [TemporaryName], isText: Bool)]
    {
        changeSet.columns(of: record).compactMap { place, _ in
            guard changeSet.delta(at: place) == nil, let cell = changeSet.cell(at: place), cell.range.count == 16,
                cell.kind == .integer || cell.kind == .text,
                changeSet.reader.bytes[cell.range].allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }),
                let id = changeSet.reader.integer(in: cell.range),
                (TemporaryID.reservedMin...TemporaryID.reservedMax).contains(id)
            else { return nil }
            let names = schema.tables.indices.filter { schema.tables[$0].keyKind == .integer }.map {
                TemporaryName(table: $0, id: -id)
            }
            return (place, names, cell.kind == .text)
        }
    }

    /// Assigns ids to new records with temporary ones, in their order; throws ``Violation`` if one is of two records.
    func assign(to changeSet: PendingChangeSet, known: [TemporaryName: Int64], take: (_ table: Int) throws -> Int64)
        throws -> [(name: TemporaryName, id: Int64)]
    {
        var assigned: [(name: TemporaryName, id: Int64)] = []
        for record in changeSet.records where record.operation == .create {
            guard let name = temporaryKey(record) else { continue }
            guard known[name] == nil else { throw Self.usedTemporaryID(schema.tables[name.table]) }
            assigned.append((name, try take(name.table)))
        }
        return assigned
    }

    /// Replaces temporary ids by `id`; throws ``Violation`` when one is unknown, or a record is named twice.
    ///
    /// Without `requiresAll` unknown ids stay, as in the answer to a refused change set.
    func rename(_ changeSet: inout PendingChangeSet, requiresAll: Bool, by id: (TemporaryName) -> Int64?) throws {
        var hasRenamed = false
        for index in changeSet.records.indices {
            let record = changeSet.records[index]
            if let name = temporaryKey(record) {
                if let id = id(name) {
                    changeSet.records[index].authorsKey = record.key
                    changeSet.records[index].key = String(id)
                    hasRenamed = true
                } else if requiresAll {
                    throw unknown(record, column: nil)
                }
            }
            let present = changeSet.records[index]
            if let key = try renamedKey(of: present, requiresAll: requiresAll, by: id) {
                changeSet.records[index].authorsKey = present.authorsKey ?? present.key
                changeSet.records[index].key = key
                hasRenamed = true
            }
            for (place, names) in references(of: record, in: changeSet) {
                if let id = names.lazy.compactMap(id).first {
                    changeSet.replace(at: place, by: .integer(id))
                } else if requiresAll {
                    throw unknown(record, column: changeSet.changeSet.column(at: place, of: record).name)
                }
            }
            for stray in strays(of: record, in: changeSet) {
                guard let id = stray.names.lazy.compactMap(id).first else { continue }
                changeSet.replace(at: stray.place, by: stray.isText ? .text(String(id)) : .integer(id))
            }
        }
        guard hasRenamed else { return }
        var names: Set<RecordID> = []
        for record in changeSet.records
        where !names.insert(RecordID(table: record.table, key: record.key)).inserted { throw Self.duplicateRecord }
    }

    /// Returns a composite key with permanent ids in place of temporary ones; nil if it has none.
    private func renamedKey(
        of record: PendingChangeSet.Record, requiresAll: Bool, by id: (TemporaryName) -> Int64?
    ) throws -> String? {
        let references = keyReferences(of: record)
        guard !references.isEmpty else { return nil }
        var parts = Value.parts(ofKey: record.key)
        var hasRenamed = false
        for (part, names) in references {
            if let id = names.lazy.compactMap(id).first {
                parts[part] = .integer(id)
                hasRenamed = true
            } else if requiresAll {
                let column = schema.layouts[record.table].keyPlaces[part]
                throw unknown(record, column: schema.tables[record.table].columns[column].name)
            }
        }
        return hasRenamed ? Value.key(ofParts: parts) : nil
    }

    /// The refusal of a temporary id that stands for two records.
    package static func usedTemporaryID(_ table: SyncedTable) -> Violation {
        .refusal(
            TidemarkError(
                .invalidKey, "A temporary id was used for a record before.",
                fix: "Count down for each new record, and keep the counter.", place: .init(table: table.name)))
    }

    /// The refusal of a record that a change set names by its permanent and by a temporary id.
    private static let duplicateRecord = Violation.refusal(
        TidemarkError(
            .invalidKey,
            "A change set names a record twice: by a temporary id, and by the id that it has, or now gets.",
            fix: "Name each record once, and use only ids that the server has assigned."))

    private func unknown(_ record: PendingChangeSet.Record, column: String?) -> Violation {
        .refusal(
            TidemarkError(
                .unknownTemporaryId, "A negative id stands for no record that this device created.",
                fix: "Create the record in this change set or in an earlier one of the same device.",
                place: .init(
                    table: schema.tables[record.table].name, key: record.authorsKey ?? record.key, column: column)))
    }
}

/// What a change set reads and writes, as far as its values tell.
///
/// A run is the longest series of change sets where none reads or writes what an earlier one writes, so that they can
/// be judged by the same facts and written together. The rules are a whitelist: a change set that is not provably
/// separate begins a run of its own, and so does one with a key that the database may spell in another way.
struct Footprint {
    /// The properties of a schema that decide what a change set touches.
    struct Rules: Sendable {
        /// The places of the columns of a table's unique constraints; nil if these include expressions.
        fileprivate let uniques: [Int: Set<Int>?]
        /// The tables to which others refer, so that a deletion may cascade or be restricted.
        fileprivate let parents: Set<Int>
        /// The tables to which others refer by columns that are not the key.
        fileprivate let parentsByValue: Set<Int>
        /// The references of each table to integer keys: a column, and the tables whose records it may name.
        let integerReferences: [Int: [Int: [Int]]]
        /// The tables to which a table refers in another way.
        fileprivate let valueParents: [Int: Set<Int>]

        init(_ schema: SyncSchema) {
            let tables = schema.tables
            let places = Dictionary(uniqueKeysWithValues: tables.enumerated().map { ($1.name, $0) })
            let references = tables.flatMap(\.references)
            parents = Set(references.compactMap { places[$0.parent] })
            let isToKey = { (reference: SyncedTable.Reference) in
                schema.byName[reference.parent]?.key == reference.parentColumns
            }
            parentsByValue = Set(references.filter { !isToKey($0) }.compactMap { places[$0.parent] })
            let isNumbered = { (name: String) in schema.byName[name]?.keyKind == .integer }
            var uniques: [Int: Set<Int>?] = [:]
            var integerReferences: [Int: [Int: [Int]]] = [:]
            var valueParents: [Int: Set<Int>] = [:]
            for (place, table) in tables.enumerated() {
                let columns = Dictionary(
                    table.columns.enumerated().map { ($1.name, $0) }, uniquingKeysWith: { first, _ in first })
                if !table.uniques.isEmpty || table.hasComputedUniques {
                    let isOpen = table.hasComputedUniques || table.partiallyUnique != nil
                    let names = table.uniques.flatMap { $0 }
                    uniques[place] = .some(isOpen ? nil : Set(names.compactMap { columns[$0] }))
                }
                for (column, parent) in schema.integerReferences(of: table) {
                    guard let column = columns[column], let parent = places[parent],
                        integerReferences[place]?[column]?.contains(parent) != true
                    else { continue }
                    integerReferences[place, default: [:]][column, default: []].append(parent)
                }
                valueParents[place] = Set(
                    table.references.filter { !isToKey($0) || !isNumbered($0.parent) }.compactMap { places[$0.parent] })
            }
            self.uniques = uniques
            self.integerReferences = integerReferences
            self.valueParents = valueParents
        }

        /// Whether an operation on a record may change records that the change set does not name.
        func reachesFar(_ table: Int, _ operation: Operation) -> Bool {
            switch operation {
            case .create: false
            case .update: parentsByValue.contains(table)
            case .delete: parents.contains(table)
            }
        }

        fileprivate func movesUnique(_ record: PendingChangeSet.Record, of changeSet: PendingChangeSet) -> Bool {
            guard let uniques = uniques[record.table] else { return false }
            guard record.operation == .update, let uniques else { return true }
            return changeSet.columns(of: record).contains { uniques.contains($0.column.place) }
        }
    }

    private let rules: Rules
    private var records: Set<RecordID> = []
    /// The records to which a change set refers by an integer key.
    private var referenceTargets: Set<RecordID> = []
    /// The tables to which a change set refers in another way.
    private var referenceTables: Set<Int> = []
    /// The tables in which a change set sets unique values.
    private var tablesSettingUniques: Set<Int> = []
    /// The tables in which a change set frees unique values.
    private var tablesFreeingUniques: Set<Int> = []

    init(_ rules: Rules) { self.rules = rules }

    /// Whether a change set, whose keys are final, neither reads nor writes what others of the footprint write.
    func isSeparate(_ changeSet: PendingChangeSet) -> Bool {
        guard !records.isEmpty else { return true }
        for record in changeSet.records {
            if records.contains(name(record)) { return false }
            let isNew = record.operation == .create
            if isNew, referenceTargets.contains(name(record)) || referenceTables.contains(record.table) { return false }
            guard rules.movesUnique(record, of: changeSet) else { continue }
            // This change set may set a value that another one frees, or the reverse.
            if record.operation != .delete, tablesFreeingUniques.contains(record.table) { return false }
            if !isNew, tablesSettingUniques.contains(record.table) { return false }
        }
        return true
    }

    mutating func add(_ changeSet: PendingChangeSet) {
        for record in changeSet.records {
            records.insert(name(record))
            referenceTables.formUnion(rules.valueParents[record.table, default: []])
            for (place, column) in changeSet.columns(of: record) {
                guard let parents = rules.integerReferences[record.table]?[column.place],
                    changeSet.delta(at: place) == nil, let id = changeSet.integer(at: place)
                else { continue }
                for parent in parents { referenceTargets.insert(RecordID(table: parent, key: String(id))) }
            }
            guard rules.movesUnique(record, of: changeSet) else { continue }
            if record.operation != .delete { tablesSettingUniques.insert(record.table) }
            if record.operation != .create { tablesFreeingUniques.insert(record.table) }
        }
    }

    private func name(_ record: PendingChangeSet.Record) -> RecordID { RecordID(table: record.table, key: record.key) }
}

extension PendingChangeSet {
    /// Returns an integer value; nil for a value of another type.
    func integer(at place: Int) -> Int64? {
        guard let cell = cell(at: place) else {
            if case .integer(let id)? = replacement(at: place) { return id }
            return nil
        }
        return cell.kind == .integer ? reader.integer(in: cell.range) : nil
    }
}
