import TidemarkCore
import TidemarkSQLite

/// From one pair of schemas, a file's and its zone's, to the next: what it means for what is kept.
///
/// A pure function of both pairs.
struct SchemaStep {
    /// A file's tables and the zone's, as they were.
    struct Side {
        let common: SyncSchema

        init(local: [SyncedTable], served: String?, renames: String?) throws {
            guard let served else {
                common = SyncSchema(tables: local)
                return
            }
            common =
                SchemaComparison(
                    local: local,
                    served: try SchemaText.decode(served),
                    renames: try Renames.decode(renames)
                ).common
        }
    }

    let old: Side
    let new: SyncSchema
    /// Whether the file has only now come to know the zone's schema: rows follow in a snapshot.
    let isFirst: Bool

    /// The columns of a table that both sides had, under the names that they have in the file now.
    func sharedBefore(_ table: String) -> Set<String> {
        guard let before = old.common.byName[table] else { return [] }
        let unserved = Set(old.common.difference.unservedColumns[table, default: []].map(\.name))
        let names = renames[table] ?? [:]
        return Set(before.columns.map(\.name).filter { !unserved.contains($0) }.map { names[$0] ?? $0 })
    }

    /// Columns of the file that were renamed, by table and former name.
    var renames: [String: [String: String]] {
        new.tables.reduce(into: [:]) { result, table in
            guard let before = old.common.byName[table.name] else { return }
            let (had, has) = (Set(before.columns.map(\.name)), Set(table.columns.map(\.name)))
            let names = new.history.renames[table.name, default: [:]].filter {
                had.contains($0.key) && !has.contains($0.key) && has.contains($0.value) && !had.contains($0.value)
            }
            if !names.isEmpty { result[table.name] = names }
        }
    }

    /// The names that renamed columns had before, by table and each name that they had since.
    var formerNames: [String: [String: String]] {
        renames.reduce(into: [:]) { result, renamed in
            let (table, names) = renamed
            let had = Set(old.common.byName[table]?.columns.map(\.name) ?? [])
            for (former, name) in names {
                let aliases = new.history.renames[table, default: [:]].filter {
                    $0.value == name && !had.contains($0.key)
                }
                for later in [name] + aliases.keys { result[table, default: [:]][later] = former }
            }
        }
    }

    /// Tables that both sides have only now, parents first.
    var addedTables: [SyncedTable] { new.tables.filter { old.common.byName[$0.name] == nil } }

    /// Tables of the file that the zone has dropped.
    var goneTables: [SyncedTable] {
        let here = Set(new.difference.unservedTables.map(\.name))
        let gone = here.intersection(new.history.droppedTables)
        return old.common.tables.filter { gone.contains($0.name) }
    }

    /// Columns that both sides have only now, of tables that both had before.
    var addedColumns: [(table: SyncedTable, columns: [SyncedTable.Column])] {
        new.tables.compactMap { table in
            guard old.common.byName[table.name] != nil else { return nil }
            let before = sharedBefore(table.name)
            let unserved = Set(new.difference.unservedColumns[table.name, default: []].map(\.name))
            let columns = table.valueColumns.filter { !before.contains($0.name) && !unserved.contains($0.name) }
            return columns.isEmpty ? nil : (table, columns)
        }
    }

    /// Tables whose columns, or what of them is shared, are others than before.
    var alteredTables: [SyncedTable] {
        let added = Set(addedColumns.map(\.table.name))
        return new.tables.filter { table in
            guard let before = old.common.byName[table.name] else { return false }
            return before.columns.map(\.name) != table.columns.map(\.name) || added.contains(table.name)
        }
    }

    /// Tables whose captured rows have another form than before, or that are captured no longer;
    /// they were drained.
    var forgotten: [String] {
        let altered = Set(alteredTables.map(\.name))
        return old.common.tables.map(\.name).filter { altered.contains($0) || new.byName[$0] == nil }
    }

    /// Whether the file has dropped something that the zone has: its values are not here any more.
    var hasLost: Bool {
        guard !isFirst else { return false }
        if new.difference.unknownTables.contains(where: { old.common.byName[$0.name] != nil }) { return true }
        return new.difference.unknownColumns.contains { table, columns in
            guard let before = old.common.byName[table] else { return false }
            let known = Set(before.columns.map(\.name))
            let unserved = old.common.difference.unservedColumns[table, default: []].map(\.name)
            let names = old.common.difference.wireNames[table, default: [:]]
            let shared = known.subtracting(unserved).map { names[$0] ?? $0 }
            return columns.contains { shared.contains($0.name) }
        }
    }
}
