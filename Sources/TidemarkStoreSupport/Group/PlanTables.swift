import TidemarkCore
import TidemarkSQL

/// The properties of a schema that decide whether change sets are independent.
struct PlanTables: Sendable {
    /// The columns of each table's unique constraints; nil if they include expressions.
    let uniques: [String: Set<String>?]
    let haveReferences: Bool
    /// The lowest permanent id of each integer-keyed table.
    private let lowestIDs: [String: Int64]
    /// The tables to which others refer, so a deletion may cascade or be restricted.
    private let parents: Set<String>
    /// The tables to which others refer by columns that are not the key.
    private let parentsByValue: Set<String>
    /// For each table, the tables to which it refers in another way than by an integer key.
    private let valueParents: [String: Set<String>]

    init(_ schema: SyncSchema) {
        let integerKeyed = schema.tables.filter { $0.keyKind == .integer }
        lowestIDs = Dictionary(uniqueKeysWithValues: integerKeyed.map { ($0.name, $0.lowestID) })
        let references = schema.tables.flatMap(\.references)
        haveReferences = !references.isEmpty
        parents = Set(references.map(\.parent))
        let isToKey = { (reference: SyncedTable.Reference) in
            schema.byName[reference.parent]?.key == reference.parentColumns
        }
        parentsByValue = Set(references.filter { !isToKey($0) }.map(\.parent))
        let integerKeyedNames = Set(integerKeyed.map(\.name))
        valueParents = Dictionary(
            uniqueKeysWithValues: schema.tables.map { table in
                let others = table.references.filter { !isToKey($0) || !integerKeyedNames.contains($0.parent) }
                return (table.name, Set(others.map(\.parent)))
            }
        )
        let unique = schema.tables.filter { !$0.uniques.isEmpty || $0.hasComputedUniques }
        let isOpen = { (table: SyncedTable) in table.hasComputedUniques || table.partiallyUnique != nil }
        uniques = Dictionary(
            uniqueKeysWithValues: unique.map { table -> (String, Set<String>?) in
                (table.name, isOpen(table) ? nil : Set(table.uniques.flatMap { $0 }))
            }
        )
    }

    /// Returns the name of a change set's record, and whether its key is a temporary id.
    func name(_ table: String, key: String, _ ord: Int) -> (name: PlanRecords.Name, isTemporary: Bool) {
        guard key.utf8.first == UInt8(ascii: "-"), let lowestID = lowestIDs[table], Int64(key) ?? .min < lowestID else {
            return (PlanRecords.Name(table: table, key: key), false)
        }
        let list = ChangeSetStaging.list(of: ord)
        return (PlanRecords.Name(table: table, key: "\(list):\(key)"), true)
    }

    /// Whether a table has integer ids of its own.
    func hasIntegerKey(_ table: String) -> Bool { lowestIDs[table] != nil }

    /// Whether a table has unique values besides its key.
    func haveUniques(_ table: String) -> Bool { uniques.keys.contains(table) }

    /// Whether an operation on a record may change records that the change set does not name.
    func reachesFar(_ table: String, _ operation: TidemarkCore.Operation) -> Bool {
        switch operation {
        case .create: false
        case .update: parentsByValue.contains(table)
        case .delete: parents.contains(table)
        }
    }

    /// Returns the tables to which a table refers in another way than by an integer key.
    func valueParents(of table: String) -> Set<String> { valueParents[table, default: []] }
}
