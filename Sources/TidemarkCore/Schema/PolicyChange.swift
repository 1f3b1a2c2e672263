/// An operator's change to the conflict policy of one table or column.
public struct PolicyChange: Hashable, Sendable, CustomStringConvertible {
    /// The name of the table, or `table.column`.
    package let name: String
    package let old: ConflictPolicy
    package let new: ConflictPolicy
    /// The change in words.
    public var description: String { "policy of \(name): \(old.rawValue) -> \(new.rawValue)" }
}

extension SyncSchema {
    /// Returns the changes, sorted by name, to the `wanted` policies by table and by `table.column`.
    ///
    /// - Throws: `invalidArgument` for an unknown table or column, or a column that cannot have the policy `add`.
    package func changes(to wanted: [String: ConflictPolicy]) throws(TidemarkError) -> [PolicyChange] {
        let names = Set(
            tables.flatMap { table in [table.name] + table.valueColumns.map { "\(table.name).\($0.name)" } })
        guard let unknown = wanted.keys.sorted().first(where: { !names.contains($0) }) else {
            for name in wanted.keys.sorted() where wanted[name] == .add { try requireCounter(name) }
            return wanted.sorted { $0.key < $1.key }.compactMap { name, new in
                let old = policies[name] ?? policies[tableName(of: name)] ?? .reject
                return old == new ? nil : PolicyChange(name: name, old: old, new: new)
            }
        }
        throw TidemarkError(
            .invalidArgument, "--policy names \(unknown), which is no synced table, nor a column apart from its key.",
            fix: "The synced tables are \(tables.map(\.name).sorted().joined(separator: ", ")).")
    }

    /// Throws unless the changes of a column can add up: a sum in a reference or unique column means another record.
    private func requireCounter(_ name: String) throws(TidemarkError) {
        let table = byName[tableName(of: name)]
        let column = table?.valueColumns.first { "\(tableName(of: name)).\($0.name)" == name }
        var reason: String?
        if let table, let column {
            let referring = table.references.flatMap(\.columns)
            let referred = references(to: table.name).flatMap(\.reference.parentColumns)
            if column.affinity != "INTEGER" { reason = "its type is not an integer" }
            if (referring + referred).contains(column.name) { reason = "it is part of a reference" }
            if table.uniques.joined().contains(column.name) { reason = "it is unique" }
        } else {
            reason = "it is a table"
        }
        guard let reason else { return }
        throw TidemarkError(
            .invalidArgument, "\(name) cannot have the policy add: \(reason).",
            fix: "Name a column of integers that is neither unique nor part of a reference: --policy item.stock=add.")
    }

    /// Returns the policies after changes, without those that change nothing: `reject`, or equal to the table's.
    package func policies(after changes: [PolicyChange]) -> [String: ConflictPolicy] {
        var policies = policies
        for change in changes { policies[change.name] = change.new }
        return policies.filter { name, policy in
            let isTable = byName[name] != nil
            return policy != (isTable ? .reject : policies[tableName(of: name)] ?? .reject)
        }
    }

    private func tableName(of name: String) -> String {
        guard byName[name] == nil else { return name }
        return tables.first { name.hasPrefix("\($0.name).") }?.name ?? name
    }
}
