/// Compares a device's tables with its zone's, as a pure function of both.
package struct SchemaComparison: Hashable, Sendable {
    /// The tables that both have, as declared in the file, with the difference.
    package let common: SyncSchema
    /// The reasons why they cannot be synced with each other; empty if they can.
    package let problems: [TidemarkError]

    /// Compares the tables of a file with a zone's; `renames` are the app's, the zone's renames are in `served`.
    package init(local: [SyncedTable], served: SyncSchema, renames: [ColumnRename] = []) {
        var tables = [SyncedTable]()
        var problems = [TidemarkError]()
        var difference = SchemaDifference()
        var history = SchemaHistory()
        let names = Set(local.map(\.name))
        for table in local {
            guard let zone = served.byName[table.name] else {
                difference.unservedTables.append(table)
                continue
            }
            let pair = TablePair(local: table, served: zone, all: served, renames: renames)
            problems += pair.problems
            tables.append(table.with(columns: table.columns, references: pair.references(names)))
            history.fills[table.name] = pair.fills.isEmpty ? nil : pair.fills
            history.renames[table.name] = pair.aliases.isEmpty ? nil : pair.aliases
            difference.wireNames[table.name] = pair.wireNames.isEmpty ? nil : pair.wireNames
            difference.unknownColumns[table.name] = pair.unknownColumns.isEmpty ? nil : pair.unknownColumns
            difference.unservedColumns[table.name] = pair.unservedColumns.isEmpty ? nil : pair.unservedColumns
        }
        history.droppedColumns = served.history.droppedColumns
        history.droppedTables = served.history.droppedTables
        difference.unknownTables = served.tables.filter { !names.contains($0.name) }
        for table in difference.unknownTables { history.renames[table.name] = served.history.renames[table.name] }
        common = SyncSchema(
            tables: tables, policies: served.policies, history: history, difference: difference, objects: served.objects
        )
        self.problems = problems
    }
}

/// A table as declared in a file and in its zone.
private struct TablePair {
    let local: SyncedTable
    let served: SyncedTable
    /// The file's names of the shared columns, by the zone's names.
    let localNames: [String: String]
    let aliases: [String: String]
    let fills: [String: String]
    private let zone: SyncSchema

    init(local: SyncedTable, served: SyncedTable, all: SyncSchema, renames: [ColumnRename]) {
        self.local = local
        self.served = served
        zone = all
        let former = all.history.renames[local.name, default: [:]]
        let declared = renames.filter { $0.table == local.name }.map { ($0.old, $0.new) }
        let names = ColumnNames(
            here: Set(local.columns.map(\.name)), there: Set(served.columns.map(\.name)),
            renames: former.map { ($0.key, $0.value) } + declared)
        let localNames = names.localNames()
        let fills = all.history.fills[local.name, default: [:]]
        self.fills = Dictionary(
            uniqueKeysWithValues: fills.compactMap { name, value in (localNames[name] ?? name, value) })
        self.localNames = localNames
        aliases = names.aliases(localNames, former: former)
    }

    var wireNames: [String: String] {
        Dictionary(uniqueKeysWithValues: localNames.filter { $0.key != $0.value }.map { ($0.value, $0.key) })
    }

    var unknownColumns: [SyncedTable.Column] { served.columns.filter { localNames[$0.name] == nil } }

    var unservedColumns: [SyncedTable.Column] {
        let shared = Set(localNames.values)
        return local.columns.filter { !shared.contains($0.name) }
    }

    /// Returns the references to synced tables that the file or the zone declares.
    func references(_ names: Set<String>) -> [SyncedTable.Reference] {
        let synced = names.intersection(zone.byName.keys)
        let own = local.references.filter { synced.contains($0.parent) }
        let theirs = served.references.compactMap { reference -> SyncedTable.Reference? in
            let columns = reference.columns.compactMap { localNames[$0] }
            guard columns.count == reference.columns.count, synced.contains(reference.parent),
                !own.contains(where: { $0.columns == columns })
            else { return nil }
            return SyncedTable.Reference(
                columns: columns, parent: reference.parent, parentColumns: reference.parentColumns,
                onDelete: reference.onDelete)
        }
        return own + theirs
    }

    var problems: [TidemarkError] {
        let key = served.key.map { localNames[$0] ?? $0 }
        guard key == local.key, served.keyKind == local.keyKind else {
            return [
                makeMismatch(
                    """
                    The key of \(local.name) is \(describeKey(of: local)) in this file and \
                    \(describeKey(of: served)) in the zone.
                    """,
                    column: nil)
            ]
        }
        let columns = Dictionary(uniqueKeysWithValues: local.columns.map { ($0.name, $0) })
        let types = served.columns.compactMap { theirs -> TidemarkError? in
            guard let mine = localNames[theirs.name].flatMap({ columns[$0] }), mine.affinity != theirs.affinity else {
                return nil
            }
            return makeMismatch(
                """
                The column \(local.name).\(mine.name) is \(mine.type.isEmpty ? "without type" : mine.type) in this \
                file and \(theirs.type.isEmpty ? "without type" : theirs.type) in the zone.
                """,
                column: mine.name)
        }
        let requiredColumns = unservedColumns.filter { $0.isNotNull && $0.defaultSQL == nil }
        return types
            + requiredColumns.map {
                TidemarkError(
                    .serverBehind,
                    """
                    The column \(local.name).\($0.name) of this file is NOT NULL without a default, and the zone does \
                    not have it: other devices' records would not fit.
                    """,
                    fix: "Give it a default in the app's migration, or add the column at the server.",
                    place: .init(table: local.name, column: $0.name))
            } + localReferences.map(makeServerBehind)
    }

    private func makeServerBehind(_ reference: SyncedTable.Reference) -> TidemarkError {
        TidemarkError(
            .serverBehind,
            """
            The column \(local.name).\(reference.columns[0]) refers to \(reference.parent) in this file, but not in \
            the zone: the zone would store temporary ids in it.
            """,
            fix: "Declare the same foreign key at the server.",
            place: .init(table: local.name, column: reference.columns[0]))
    }

    /// The file's references by integer ids, in shared columns, that the zone does not declare.
    private var localReferences: [SyncedTable.Reference] {
        let shared = Set(localNames.values)
        return local.references.filter { reference in
            guard let parent = zone.byName[reference.parent], parent.keyKind == .integer,
                reference.parentColumns == parent.key, shared.isSuperset(of: reference.columns)
            else { return false }
            return !served.references.contains {
                $0.parent == reference.parent && $0.columns.map { localNames[$0] ?? $0 } == reference.columns
            }
        }
    }

    private func describeKey(of table: SyncedTable) -> String {
        let columns = table.key.joined(separator: ", ")
        return table.keyKind == .integer ? "INTEGER \(columns)" : "\(table.keyKind.rawValue) (\(columns))"
    }

    private func makeMismatch(_ message: String, column: String?) -> TidemarkError {
        TidemarkError(
            .schemaMismatch,
            message,
            fix: """
                Migrate one side so that both agree: values and keys cannot be converted on the way. The outbox is \
                kept. `tidemark schema FILE` shows all differences.
                """,
            place: .init(table: local.name, column: column))
    }
}

/// The current and former names of a table's columns, whose links a device that skipped versions follows.
private struct ColumnNames {
    /// The column names in the file.
    let here: Set<String>
    /// The column names in the zone.
    let there: Set<String>
    /// The names that renames link with each name.
    private let neighbours: [String: Set<String>]

    init(here: Set<String>, there: Set<String>, renames: [(String, String)]) {
        self.here = here
        self.there = there
        var neighbours: [String: Set<String>] = [:]
        for (old, new) in renames {
            neighbours[old, default: []].insert(new)
            neighbours[new, default: []].insert(old)
        }
        self.neighbours = neighbours
    }

    func localNames() -> [String: String] {
        var names: [String: String] = [:]
        for name in there.intersection(here) { names[name] = name }
        var free = here.subtracting(there)
        for name in there.subtracting(here).sorted() {
            guard let mine = columns(reachableFrom: name).first(where: { free.contains($0) }) else { continue }
            names[name] = mine
            free.remove(mine)
        }
        return names
    }

    /// Returns the file's column, or else the zone's, of each other name; `former` maps the zone's former names.
    func aliases(_ localNames: [String: String], former: [String: String]) -> [String: String] {
        var aliases = localNames.filter { $0.key != $0.value }
        for name in neighbours.keys where !here.contains(name) && !there.contains(name) {
            let servedName = former[name].flatMap { there.contains($0) ? $0 : nil }
            guard let column = servedName ?? columns(reachableFrom: name).first else { continue }
            aliases[name] = localNames[column] ?? column
        }
        return aliases
    }

    /// Returns the columns that renames link with a name, nearest first; the search does not go beyond a column.
    private func columns(reachableFrom name: String) -> [String] {
        var allNames = Set([name])
        var next = [name]
        var columns = [String]()
        while !next.isEmpty {
            let newNames = Set(next.flatMap { neighbours[$0, default: []] }).subtracting(allNames).sorted()
            allNames.formUnion(newNames)
            columns += newNames.filter { here.contains($0) || there.contains($0) }
            next = newNames.filter { !here.contains($0) && !there.contains($0) }
        }
        return columns
    }
}
