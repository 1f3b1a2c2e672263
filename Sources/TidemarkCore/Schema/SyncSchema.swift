/// The synced tables of a zone, with the policy of each.
public struct SyncSchema: Hashable, Sendable {
    /// The tables, parents before children wherever references form no cycle.
    public let tables: [SyncedTable]
    /// The tables by name.
    public let byName: [String: SyncedTable]
    /// The policy of each table, and of each `table.column`, that has one of its own.
    public let policies: [String: ConflictPolicy]
    /// How columns came to be what they are: added later, or called otherwise before.
    public let history: SchemaHistory
    /// On a device, what its file and the zone do not have in common; empty elsewhere.
    public let difference: SchemaDifference

    /// Makes a schema and orders its tables.
    public init(
        tables: [SyncedTable],
        policies: [String: ConflictPolicy] = [:],
        history: SchemaHistory = SchemaHistory(),
        difference: SchemaDifference = SchemaDifference()
    ) {
        self.tables = Self.parentsFirst(tables)
        self.byName = Dictionary(uniqueKeysWithValues: tables.map { ($0.name, $0) })
        self.policies = policies
        self.history = history
        self.difference = difference
    }

    /// The conflict policy of a table.
    public func policy(of table: String) -> ConflictPolicy { policies[table] ?? .reject }

    /// The policies of the columns of a table that have another than the table.
    public func columnPolicies(of table: String) -> [String: ConflictPolicy] {
        guard let columns = byName[table]?.valueColumns.map(\.name), !policies.isEmpty else { return [:] }
        return columns.reduce(into: [:]) { $0[$1] = policies["\(table).\($1)"] }
    }

    /// Whether any table or column is decided by the clock, so that change sets need times.
    public var needsTimes: Bool { policies.values.contains(.latest) }

    /// The references of other tables, and of the table itself, that point at `table`.
    public func references(to table: String) -> [(child: SyncedTable, reference: SyncedTable.Reference)] {
        tables.flatMap { child in child.references.filter { $0.parent == table }.map { (child, $0) } }
    }

    /// What two sides must have in common to exchange rows: names, keys, columns and their types,
    /// in a form that can be compared and hashed.
    public var shape: String {
        tables.sorted { $0.name < $1.name }.map { table in
            let columns = table.columns.sorted { $0.name < $1.name }.map { "\($0.name) \($0.type.uppercased())" }
                .joined(separator: ",")
            return "\(table.name)(\(columns);\(table.key.joined(separator: ",")))"
        }.joined(separator: "\n")
    }

    /// Everything that a look-up of names, keys and references depends on, as text.
    public var catalogText: String {
        let all = tables + difference.unknownTables
        let references = all.flatMap { table in
            table.references.map { "\(table.name)\($0.columns)->\($0.parent)\($0.parentColumns)" }
        }
        let other = difference.unknownColumns.sorted { $0.key < $1.key }.map { "\($0.key)+\($0.value.map(\.name))" }
        let renames = history.renames.sorted { $0.key < $1.key }.map {
            "\($0.key)\($0.value.sorted { $0.key < $1.key })"
        }
        let unknown = difference.unknownTables.map { "\($0.name)\($0.columns.map(\.name))" }
        let gone = history.dropped.sorted { $0.key < $1.key }.map { "\($0.key)-\($0.value)" }
        return ([shape, "-\(history.droppedTables)"] + gone + references + other + renames + unknown).joined(
            separator: "\n"
        )
    }

    /// Orders tables so that parents come first.
    ///
    /// Tables of a cycle keep their given order.
    private static func parentsFirst(_ tables: [SyncedTable]) -> [SyncedTable] {
        var remaining = tables
        var ordered: [SyncedTable] = []
        while !remaining.isEmpty {
            let names = Set(remaining.map(\.name))
            let free = remaining.filter { table in
                table.references.allSatisfy { $0.parent == table.name || !names.contains($0.parent) }
            }
            let next = free.isEmpty ? [remaining[0]] : free
            ordered += next
            let done = Set(next.map(\.name))
            remaining.removeAll { done.contains($0.name) }
        }
        return ordered
    }
}
