import TidemarkCore

/// Independent change sets that are written by the same statements.
///
/// The statements create, then update, then delete, parents before children. A new segment begins
/// where that order could change the result: a record is named twice, a record is created to which
/// an earlier change set refers, or a unique value may move from one record to another.
struct PlanSegment: Sendable {
    let number: Int
    /// The only change set so far; it may be large, so it is recorded when a second one follows.
    private var first: PlanRecords.Changes?
    private var isEmpty = true
    private var records: Set<PlanRecords.Name> = []
    /// The records that a change set refers to by an integer key.
    private var referenceTargets: Set<PlanRecords.Name> = []
    /// The tables that a change set refers to in another way.
    private var referenceTables: Set<String> = []
    /// The tables in which a change set sets unique values.
    private var tablesSettingUniques: Set<String> = []
    /// The tables in which a change set frees unique values.
    private var tablesFreeingUniques: Set<String> = []

    init(number: Int) { self.number = number }

    /// Adds a change set if it is independent of the others.
    ///
    /// - Returns: Whether it was added.
    /// - Throws: ``GroupNeedsSerialExecution`` when it may change records that it does not name.
    mutating func add(_ changes: PlanRecords.Changes, in tables: PlanTables) throws -> Bool {
        if let first { record(first, in: tables) }
        first = isEmpty ? changes : nil
        guard try isIndependent(changes, in: tables) else { return false }
        if !isEmpty { record(changes, in: tables) }
        isEmpty = false
        return true
    }

    private func isIndependent(_ changes: PlanRecords.Changes, in tables: PlanTables) throws -> Bool {
        for (name, operation, movesUnique) in changes.records {
            guard !tables.reachesFar(name.table, operation) else { throw GroupNeedsSerialExecution() }
            if records.contains(name) { return false }
            if operation == .create, referenceTargets.contains(name) || referenceTables.contains(name.table) {
                return false
            }
            // This change set may set a value that another one frees, or the reverse.
            guard movesUnique else { continue }
            if operation != .delete, tablesFreeingUniques.contains(name.table) { return false }
            if operation != .create, tablesSettingUniques.contains(name.table) { return false }
        }
        return true
    }

    private mutating func record(_ changes: PlanRecords.Changes, in tables: PlanTables) {
        for (name, operation, movesUnique) in changes.records {
            records.insert(name)
            referenceTables.formUnion(tables.valueParents(of: name.table))
            guard movesUnique, tables.haveUniques(name.table) else { continue }
            if operation != .delete { tablesSettingUniques.insert(name.table) }
            if operation != .create { tablesFreeingUniques.insert(name.table) }
        }
        referenceTargets.formUnion(changes.references)
    }
}
