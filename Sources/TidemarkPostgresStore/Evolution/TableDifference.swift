import TidemarkCore

/// What somebody has done to a served table since it was followed last.
///
/// A pure value of what is known and what the catalogue says.
struct TableDifference: Hashable, Sendable {
    /// A column that has another name.
    struct Rename: Hashable, Sendable {
        let old: String
        let new: String
    }

    /// Columns that are new, in table order.
    var added: [String] = []
    /// Columns that are gone, sorted.
    var dropped: [String] = []
    /// Columns that are called otherwise.
    var renamed: [Rename] = []
    /// Whether its rows may have changed unseen: its triggers were gone, a column got another type,
    /// which rewrites values, a label of an enum was renamed, a column was dropped and added again,
    /// or the key is another.
    var isRebuilt = false

    /// Compares a known table with the catalogue, `actual` being what that means.
    init(known: SyncedTable, before: CatalogueTable?, now: CatalogueTable, actual: SyncedTable) {
        let names = Set(known.columns.map(\.name))
        let present = Set(now.columns.keys)
        isRebuilt = !now.isCaptured || before == nil
        added = actual.columns.map(\.name).filter { !names.contains($0) }
        dropped = names.subtracting(present).sorted()
        guard let before else { return }
        // Numbers of columns mean nothing in a table that was made anew, or restored from a dump.
        if before.number == now.number {
            // One that was dropped and added again is another column under the same name.
            let others = names.intersection(present).filter { name in
                before.columns[name].map { $0.number != now.columns[name]?.number } ?? false
            }
            if !others.isEmpty { isRebuilt = true }
            let replaced = others.subtracting(known.key)
            dropped = (dropped + replaced).sorted()
            for old in dropped {
                guard let column = before.columns[old],
                    let new = added.first(where: { now.columns[$0]?.number == column.number })
                else { continue }
                renamed.append(Rename(old: old, new: new))
                added.removeAll { $0 == new }
                if now.columns[new]?.type != column.type { isRebuilt = true }
            }
            dropped.removeAll { old in renamed.contains { $0.old == old } }
            let new = replaced.union(added)
            added = actual.columns.map(\.name).filter { new.contains($0) }
        }
        let key = known.key.map { column in renamed.first { $0.old == column }?.new ?? column }
        if key != actual.key { isRebuilt = true }
        for (name, column) in before.columns {
            guard let type = now.columns[name]?.type, names.contains(name) else { continue }
            if type != column.type { isRebuilt = true }
        }
        // Rows have another text for a renamed label, and nobody has written them.
        for column in now.columns.values where before.number == now.number {
            let former = before.columns.values.first { $0.number == column.number }?.labels ?? [:]
            if former.contains(where: { id, label in column.labels?[id] ?? label != label }) { isRebuilt = true }
        }
    }

    /// Whether its columns are what they were.
    var isEmpty: Bool { added.isEmpty && dropped.isEmpty && renamed.isEmpty && !isRebuilt }
}

extension SchemaHistory {
    /// Takes in what became of a table's columns; `fills` are the values that rows got in the new
    /// ones.
    mutating func take(_ change: TableDifference, of table: String, fills: [String: String]) {
        for rename in change.renamed { take(rename, of: table) }
        for column in change.dropped {
            let former = renames[table, default: [:]].filter { $0.value == column }.map(\.key)
            forget(column, of: table)
            dropped[table, default: []] += former + [column]
            dropped[table]?.sort()
        }
        for column in change.added {
            forget(column, of: table)
            self.fills[table, default: [:]][column] = fills[column]
        }
        prune(table)
    }

    /// New columns that are called as others were, which old apps still mean by the name.
    func problems(with change: TableDifference, of table: String) -> [SchemaProblem] {
        var names = renames[table, default: [:]]
        for rename in change.renamed {
            names = names.mapValues { $0 == rename.old ? rename.new : $0 }
            names[rename.old] = rename.new
        }
        return change.added.compactMap { column in
            guard let now = names[column], !change.dropped.contains(now) else { return nil }
            return .formerName(column, of: now, in: table)
        }
    }

    /// Takes in that a table has become a synced one.
    mutating func takeNew(_ table: String) { droppedTables.removeAll { $0 == table } }

    /// Takes in that a table is gone.
    mutating func takeGone(_ table: String) {
        (fills[table], renames[table], dropped[table]) = (nil, nil, nil)
        droppedTables = Set(droppedTables + [table]).sorted()
    }

    private mutating func take(_ rename: TableDifference.Rename, of table: String) {
        let fill = fills[table]?[rename.old]
        forget(rename.new, of: table, keepingNames: true)
        forget(rename.old, of: table, keepingNames: true)
        fills[table, default: [:]][rename.new] = fill
        for (former, now) in renames[table, default: [:]] where now == rename.old {
            renames[table]?[former] = rename.new
        }
        renames[table, default: [:]][rename.old] = rename.new
    }

    /// Forgets what a name stood for, and unless `keepingNames` the former names of it.
    private mutating func forget(_ column: String, of table: String, keepingNames: Bool = false) {
        fills[table]?[column] = nil
        renames[table]?[column] = nil
        dropped[table]?.removeAll { $0 == column }
        guard !keepingNames else { return }
        for (former, now) in renames[table, default: [:]] where now == column { renames[table]?[former] = nil }
    }

    private mutating func prune(_ table: String) {
        if fills[table]?.isEmpty == true { fills[table] = nil }
        if renames[table]?.isEmpty == true { renames[table] = nil }
        if dropped[table]?.isEmpty == true { dropped[table] = nil }
    }
}
