import TidemarkCore

/// The alterations of a served table since the last follow, as a pure value.
struct TableDifference: Hashable, Sendable {
    struct Rename: Hashable, Sendable {
        let old: String
        let new: String
    }

    /// New columns, in table order.
    var added: [String] = []
    /// Dropped columns, sorted.
    var dropped: [String] = []
    var renamed: [Rename] = []
    /// Whether its rows may have changed without capture: no triggers, another type, label or key, or a column anew.
    var isRebuilt = false

    /// Compares a served table with the catalogue; `actual` is the catalogue's table as devices see it.
    init(servedTable: SyncedTable, before: CatalogueTable?, now: CatalogueTable, actual: SyncedTable) {
        let names = Set(servedTable.columns.map(\.name))
        let present = Set(now.columns.keys)
        isRebuilt = !now.isCaptured || before == nil
        added = actual.columns.map(\.name).filter { !names.contains($0) }
        dropped = names.subtracting(present).sorted()
        guard let before else { return }
        // Column numbers are comparable only within one table, not after a new creation or a restored dump.
        if before.number == now.number {
            // A column that was dropped and added again has another number under the same name.
            let renumbered = names.intersection(present).filter { name in
                before.columns[name].map { $0.number != now.columns[name]?.number } ?? false
            }
            if !renumbered.isEmpty { isRebuilt = true }
            let replaced = renumbered.subtracting(servedTable.key)
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
        let key = servedTable.key.map { column in renamed.first { $0.old == column }?.new ?? column }
        if key != actual.key { isRebuilt = true }
        for (name, column) in before.columns {
            guard let type = now.columns[name]?.type, names.contains(name) else { continue }
            if type != column.type { isRebuilt = true }
        }
        // A renamed label changes the text of rows without a write.
        for column in now.columns.values where before.number == now.number {
            let former = before.columns.values.first { $0.number == column.number }?.labels ?? [:]
            if former.contains(where: { id, label in column.labels?[id] ?? label != label }) { isRebuilt = true }
        }
    }

    var isEmpty: Bool { added.isEmpty && dropped.isEmpty && renamed.isEmpty && !isRebuilt }
}

extension SchemaHistory {
    /// Adds the alterations of a table; `fills` are the values of older rows in new columns.
    mutating func add(_ change: TableDifference, of table: String, fills: [String: String]) {
        for rename in change.renamed { add(rename, of: table) }
        for column in change.dropped {
            let former = renames[table, default: [:]].filter { $0.value == column }.map(\.key)
            removeTraces(of: column, in: table)
            droppedColumns[table, default: []] += former + [column]
            droppedColumns[table]?.sort()
        }
        for column in change.added {
            removeTraces(of: column, in: table)
            self.fills[table, default: [:]][column] = fills[column]
        }
        prune(table)
    }

    /// Finds new columns with the former name of another column, which old apps still use.
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

    mutating func addNewTable(_ table: String) { droppedTables.removeAll { $0 == table } }

    mutating func addDroppedTable(_ table: String) {
        fills[table] = nil
        renames[table] = nil
        droppedColumns[table] = nil
        droppedTables = Set(droppedTables + [table]).sorted()
    }

    private mutating func add(_ rename: TableDifference.Rename, of table: String) {
        let fill = fills[table]?[rename.old]
        removeTraces(of: rename.new, in: table, keepingNames: true)
        removeTraces(of: rename.old, in: table, keepingNames: true)
        fills[table, default: [:]][rename.new] = fill
        for (former, now) in renames[table, default: [:]] where now == rename.old {
            renames[table]?[former] = rename.new
        }
        renames[table, default: [:]][rename.old] = rename.new
    }

    /// Removes entries of a column's name, and unless `keepingNames` the former names of that column.
    private mutating func removeTraces(of column: String, in table: String, keepingNames: Bool = false) {
        fills[table]?[column] = nil
        renames[table]?[column] = nil
        droppedColumns[table]?.removeAll { $0 == column }
        guard !keepingNames else { return }
        for (former, now) in renames[table, default: [:]] where now == column { renames[table]?[former] = nil }
    }

    private mutating func prune(_ table: String) {
        if fills[table]?.isEmpty == true { fills[table] = nil }
        if renames[table]?.isEmpty == true { renames[table] = nil }
        if droppedColumns[table]?.isEmpty == true { droppedColumns[table] = nil }
    }
}
