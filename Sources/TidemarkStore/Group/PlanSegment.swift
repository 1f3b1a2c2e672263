import TidemarkCore

/// Change sets that are written by the same statements: none of them depends on what another one
/// does.
///
/// The statements create, then update, then delete, parents first and then children. Where that
/// order could give another result than one change set after another, a new segment begins: where a
/// record is named twice, a record is created to which an earlier change set refers, or a unique
/// value may change hands.
struct PlanSegment: Sendable {
    let number: Int
    /// The one that stands by itself: it may be large, and nothing need be known of it.
    private var first: PlanRecords.Changes?
    private var isEmpty = true
    private var records: Set<PlanRecords.Name> = []
    /// The records that are referred to by an integer key, and the tables otherwise.
    private var referred: Set<PlanRecords.Name> = []
    private var referredTables: Set<String> = []
    /// The tables in which unique values are taken, and left.
    private var (taken, left): (Set<String>, Set<String>) = ([], [])

    init(number: Int) { self.number = number }

    /// Adds a change set if it can be written with those that are there.
    ///
    /// - Returns: Whether it can.
    /// - Throws: ``NotPlain`` when it has to be written by itself, and looked at.
    mutating func add(_ changes: PlanRecords.Changes, in tables: PlanTables) throws -> Bool {
        if let first { note(first, in: tables) }
        first = isEmpty ? changes : nil
        guard try takes(changes, in: tables) else { return false }
        if !isEmpty { note(changes, in: tables) }
        isEmpty = false
        return true
    }

    private func takes(_ changes: PlanRecords.Changes, in tables: PlanTables) throws -> Bool {
        for (name, operation, movesUnique) in changes.records {
            guard !tables.reachesFar(name.table, operation) else { throw NotPlain() }
            if records.contains(name) { return false }
            if operation == .create, referred.contains(name) || referredTables.contains(name.table) { return false }
            // What another one takes or leaves may be what this one leaves or takes.
            guard movesUnique else { continue }
            if operation != .delete, left.contains(name.table) { return false }
            if operation != .create, taken.contains(name.table) { return false }
        }
        return true
    }

    private mutating func note(_ changes: PlanRecords.Changes, in tables: PlanTables) {
        for (name, operation, movesUnique) in changes.records {
            records.insert(name)
            referredTables.formUnion(tables.valueParents(of: name.table))
            guard movesUnique, tables.haveUniques(name.table) else { continue }
            if operation != .delete { taken.insert(name.table) }
            if operation != .create { left.insert(name.table) }
        }
        referred.formUnion(changes.references)
    }
}
