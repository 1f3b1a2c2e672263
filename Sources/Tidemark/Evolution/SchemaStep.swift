import TidemarkCore
import TidemarkSQL

/// The difference between two pairs of schemas, each a file's and its zone's, for the bookkeeping: a pure function.
struct SchemaStep {
    let old: SyncSchema
    let new: SyncSchema
    /// Whether the file gets the zone's schema for the first time; the rows follow in a snapshot.
    let isFirst: Bool

    /// Returns the formerly shared columns of a table, with the file's current names.
    func sharedBefore(_ table: String) -> Set<String> {
        guard let before = old.byName[table] else { return [] }
        let names = renames[table] ?? [:]
        return Set(old.difference.served(before.columns, of: table).map { names[$0.own] ?? $0.own })
    }

    /// The renamed columns of the file: new names, by table and former name.
    var renames: [String: [String: String]] {
        new.tables.reduce(into: [:]) { result, table in
            guard let before = old.byName[table.name] else { return }
            let oldColumns = Set(before.columns.map(\.name))
            let newColumns = Set(table.columns.map(\.name))
            let names = new.history.renames[table.name, default: [:]].filter {
                oldColumns.contains($0.key) && !newColumns.contains($0.key)
                    && newColumns.contains($0.value) && !oldColumns.contains($0.value)
            }
            if !names.isEmpty { result[table.name] = names }
        }
    }

    /// The former names of renamed columns, by table and each later name.
    var formerNames: [String: [String: String]] {
        renames.reduce(into: [:]) { result, renamed in
            let (table, names) = renamed
            let oldColumns = Set(old.byName[table]?.columns.map(\.name) ?? [])
            for (former, name) in names {
                let aliases = new.history.renames[table, default: [:]].filter {
                    $0.value == name && !oldColumns.contains($0.key)
                }
                for later in [name] + aliases.keys { result[table, default: [:]][later] = former }
            }
        }
    }

    /// Returns the policy `add` of former columns by today's policies: the server takes no delta in another column.
    func addPolicies(of tables: [SyncedTable]) -> [String: ConflictPolicy] {
        if planted(PlantedBug.sendsSumsAsValuesAfterMigration) { return [:] }
        let adding = tables.flatMap { table -> [String] in
            let here = new.addingColumns(of: table.name)
            let wireNames = old.difference.wireNames[table.name, default: [:]]
            let names = renames[table.name, default: [:]]
            return table.valueColumns.map(\.name).filter {
                here.contains(names[$0] ?? $0) || new.policies["\(table.name).\(wireNames[$0] ?? $0)"] == .add
            }.map { "\(table.name).\($0)" }
        }
        return Dictionary(uniqueKeysWithValues: adding.map { ($0, ConflictPolicy.add) })
    }

    /// The names of tables whose columns, and the references to them, are as they were.
    var unalteredTables: Set<String> {
        let before = Self.references(in: old)
        let after = Self.references(in: new)
        let names = new.tables.filter { table in
            old.byName[table.name]?.columns.map(\.name) == table.columns.map(\.name)
                && before[table.name] == after[table.name]
        }
        return Set(names.map(\.name))
    }

    /// The references of all tables of the file, by the table to which they lead.
    private static func references(in schema: SyncSchema) -> [String: Set<[String]>] {
        (schema.tables + schema.difference.unservedTables).reduce(into: [:]) { result, child in
            for reference in child.references {
                result[reference.parent, default: []].insert([child.name] + reference.columns)
            }
        }
    }

    /// Newly shared tables, parents first.
    var addedTables: [SyncedTable] { new.tables.filter { old.byName[$0.name] == nil } }

    var droppedTables: [SyncedTable] {
        let localTables = Set(new.difference.unservedTables.map(\.name))
        let dropped = localTables.intersection(new.history.droppedTables)
        return old.tables.filter { dropped.contains($0.name) }
    }

    /// Newly shared columns of formerly shared tables.
    var addedColumns: [(table: SyncedTable, columns: [SyncedTable.Column])] {
        new.tables.compactMap { table in
            guard old.byName[table.name] != nil else { return nil }
            let before = sharedBefore(table.name)
            let unserved = Set(new.difference.unservedColumns[table.name, default: []].map(\.name))
            let columns = table.valueColumns.filter { !before.contains($0.name) && !unserved.contains($0.name) }
            return columns.isEmpty ? nil : (table, columns)
        }
    }

    /// Tables with other columns, or other shared columns, than before.
    var alteredTables: [SyncedTable] {
        let added = Set(addedColumns.map(\.table.name))
        return new.tables.filter { table in
            guard let before = old.byName[table.name] else { return false }
            return before.columns.map(\.name) != table.columns.map(\.name) || added.contains(table.name)
        }
    }

    /// Drained tables that have another form of captured rows now, or no capture.
    var drainedTables: [String] {
        let altered = Set(alteredTables.map(\.name))
        return old.tables.map(\.name).filter { altered.contains($0) || new.byName[$0] == nil }
    }

    /// Whether the file has dropped tables or columns that the zone has, so it lacks their values.
    var needsSnapshot: Bool {
        guard !isFirst else { return false }
        if new.difference.unknownTables.contains(where: { old.byName[$0.name] != nil }) { return true }
        return new.difference.unknownColumns.contains { table, columns in
            guard let before = old.byName[table] else { return false }
            let shared = Set(old.difference.served(before.columns, of: table).map(\.wire))
            return columns.contains { shared.contains($0.name) }
        }
    }
}
