import TidemarkCore

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
                    table.columns.enumerated().map { ($1.name, $0) },
                    uniquingKeysWith: { first, _ in first }
                )
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
                    table.references.filter { !isToKey($0) || !isNumbered($0.parent) }.compactMap { places[$0.parent] }
                )
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

        /// Whether a change of a record moves a unique value.
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

    /// Makes the footprint of no change set.
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

    /// Adds a change set.
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

    private func name(_ record: PendingChangeSet.Record) -> RecordID {
        RecordID(table: record.table, key: record.key)
    }
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
