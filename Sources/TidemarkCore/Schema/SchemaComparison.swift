/// Finds out how a device's tables and its zone's fit together.
///
/// A pure function of both.
public struct SchemaComparison: Hashable, Sendable {
    /// The tables that both have, as the file has them, with the difference.
    public let common: SyncSchema
    /// Why they cannot be synced with each other, in words; empty when they can.
    public let problems: [TidemarkError]

    /// Compares the tables of a file with those of a zone.
    ///
    /// `renames` are those that the app declares; the zone's own are in `served`.
    public init(local: [SyncedTable], served: SyncSchema, renames: [ColumnRename] = []) {
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
            difference.unknownColumns[table.name] = pair.unknown.isEmpty ? nil : pair.unknown
            difference.unservedColumns[table.name] = pair.unserved.isEmpty ? nil : pair.unserved
        }
        history.dropped = served.history.dropped
        history.droppedTables = served.history.droppedTables
        difference.unknownTables = served.tables.filter { !names.contains($0.name) }
        for table in difference.unknownTables { history.renames[table.name] = served.history.renames[table.name] }
        common = SyncSchema(tables: tables, policies: served.policies, history: history, difference: difference)
        self.problems = problems
    }
}

/// One table, as a file and its zone have it.
private struct TablePair {
    let local: SyncedTable
    let served: SyncedTable
    /// The file's name of each column of the zone that the file has, by the zone's name.
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
            here: Set(local.columns.map(\.name)),
            there: Set(served.columns.map(\.name)),
            renames: former.map { ($0.key, $0.value) } + declared
        )
        let localNames = names.localNames()
        let fills = all.history.fills[local.name, default: [:]]
        self.fills = Dictionary(
            uniqueKeysWithValues: fills.compactMap { name, value in (localNames[name] ?? name, value) }
        )
        self.localNames = localNames
        aliases = names.aliases(localNames, former: former)
    }

    var wireNames: [String: String] {
        Dictionary(uniqueKeysWithValues: localNames.filter { $0.key != $0.value }.map { ($0.value, $0.key) })
    }

    var unknown: [SyncedTable.Column] { served.columns.filter { localNames[$0.name] == nil } }

    var unserved: [SyncedTable.Column] {
        let shared = Set(localNames.values)
        return local.columns.filter { !shared.contains($0.name) }
    }

    /// The file's references to tables that sync, and those that only the zone declares.
    func references(_ names: Set<String>) -> [SyncedTable.Reference] {
        let synced = names.intersection(zone.byName.keys)
        let own = local.references.filter { synced.contains($0.parent) }
        let theirs = served.references.compactMap { reference -> SyncedTable.Reference? in
            let columns = reference.columns.compactMap { localNames[$0] }
            guard columns.count == reference.columns.count, synced.contains(reference.parent),
                !own.contains(where: { $0.columns == columns })
            else { return nil }
            return SyncedTable.Reference(
                columns: columns,
                parent: reference.parent,
                parentColumns: reference.parentColumns,
                onDelete: reference.onDelete
            )
        }
        return own + theirs
    }

    var problems: [TidemarkError] {
        let key = served.key.map { localNames[$0] ?? $0 }
        guard key == local.key, served.keyKind == local.keyKind else {
            return [
                mismatch(
                    "The key of \(local.name) is \(words(local)) in this file and \(words(served)) in the zone.",
                    column: nil
                )
            ]
        }
        let columns = Dictionary(uniqueKeysWithValues: local.columns.map { ($0.name, $0) })
        let types = served.columns.compactMap { theirs -> TidemarkError? in
            guard let mine = localNames[theirs.name].flatMap({ columns[$0] }), mine.affinity != theirs.affinity else {
                return nil
            }
            return mismatch(
                """
                The column \(local.name).\(mine.name) is \(mine.type.isEmpty ? "without type" : mine.type) in this \
                file and \(theirs.type.isEmpty ? "without type" : theirs.type) in the zone.
                """,
                column: mine.name
            )
        }
        let needed = unserved.filter { $0.isNotNull && $0.defaultSQL == nil }
        return types
            + needed.map {
                TidemarkError(
                    .serverBehind,
                    """
                    The column \(local.name).\($0.name) of this file is NOT NULL without a default, and the zone does \
                    not have it: nobody else's records would fit.
                    """,
                    fix: "Give it a default in the app's migration, or add the column at the server.",
                    place: .init(table: local.name, column: $0.name)
                )
            } + ownReferences.map(behind)
    }

    private func behind(_ reference: SyncedTable.Reference) -> TidemarkError {
        TidemarkError(
            .serverBehind,
            """
            The column \(local.name).\(reference.columns[0]) refers to \(reference.parent) in this file, but not in the \
            zone: the ids that new records have until they are sent would be stored there.
            """,
            fix: "Declare the same foreign key at the server.",
            place: .init(table: local.name, column: reference.columns[0])
        )
    }

    /// The file's references by integer ids, in columns that both have, of which the zone does not
    /// know.
    private var ownReferences: [SyncedTable.Reference] {
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

    private func words(_ table: SyncedTable) -> String {
        let columns = table.key.joined(separator: ", ")
        return table.keyKind == .integer ? "INTEGER \(columns)" : "\(table.keyKind.rawValue) (\(columns))"
    }

    private func mismatch(_ message: String, column: String?) -> TidemarkError {
        TidemarkError(
            .schemaMismatch,
            message,
            fix: """
                Migrate one side so that both agree: values and keys cannot be converted on the way. The outbox is \
                kept. `tidemark schema FILE` shows all differences.
                """,
            place: .init(table: local.name, column: column)
        )
    }
}

/// The names that the columns of one table have and had, and which of them are the same column's.
///
/// A rename leads from one name to the next, and who has skipped a version of the app or of the
/// zone finds the way through the names between.
private struct ColumnNames {
    /// The names that the file has.
    let here: Set<String>
    /// The names that the zone has.
    let there: Set<String>
    /// The names that a rename leads from or to each name.
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

    /// The file's name of each column of the zone that the file has, by the zone's name.
    func localNames() -> [String: String] {
        var names: [String: String] = [:]
        for name in there.intersection(here) { names[name] = name }
        var free = here.subtracting(there)
        for name in there.subtracting(here).sorted() {
            guard let mine = reached(from: name).first(where: { free.contains($0) }) else { continue }
            names[name] = mine
            free.remove(mine)
        }
        return names
    }

    /// The column that each other name stands for: the file's, or the zone's if the file has none.
    ///
    /// `former` is what the zone itself says.
    func aliases(_ localNames: [String: String], former: [String: String]) -> [String: String] {
        var aliases = localNames.filter { $0.key != $0.value }
        for name in neighbours.keys where !here.contains(name) && !there.contains(name) {
            let known = former[name].flatMap { there.contains($0) ? $0 : nil }
            guard let column = known ?? reached(from: name).first else { continue }
            aliases[name] = localNames[column] ?? column
        }
        return aliases
    }

    /// The columns that a name leads to, nearest first; a name that is a column's leads no further.
    private func reached(from name: String) -> [String] {
        var seen = Set([name])
        var next = [name]
        var columns = [String]()
        while !next.isEmpty {
            let found = Set(next.flatMap { neighbours[$0, default: []] }).subtracting(seen).sorted()
            seen.formUnion(found)
            columns += found.filter { here.contains($0) || there.contains($0) }
            next = found.filter { !here.contains($0) && !there.contains($0) }
        }
        return columns
    }
}
