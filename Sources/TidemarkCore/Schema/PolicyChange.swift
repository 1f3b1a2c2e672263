/// A table's or column's conflict policy that an operator changes; all others stay as they are.
public struct PolicyChange: Hashable, Sendable, CustomStringConvertible {
    /// The table, or `table.column`.
    public let name: String
    /// The policy before.
    public let old: ConflictPolicy
    /// The policy from now on.
    public let new: ConflictPolicy

    /// The change in words.
    public var description: String { "policy of \(name): \(old.rawValue) -> \(new.rawValue)" }
}

extension SyncSchema {
    /// What `wanted` changes in the policies of this schema.
    ///
    /// - Parameter wanted: Policies by table, and by `table.column`.
    /// - Returns: The changes, by name.
    /// - Throws: `invalidArgument` when one is of what the schema does not have.
    public func changes(to wanted: [String: ConflictPolicy]) throws(TidemarkError) -> [PolicyChange] {
        let known = Set(
            tables.flatMap { table in [table.name] + table.valueColumns.map { "\(table.name).\($0.name)" } }
        )
        guard let unknown = wanted.keys.sorted().first(where: { !known.contains($0) }) else {
            return wanted.sorted { $0.key < $1.key }.compactMap { name, new in
                let old = policies[name] ?? policies[tableName(of: name)] ?? .reject
                return old == new ? nil : PolicyChange(name: name, old: old, new: new)
            }
        }
        throw TidemarkError(
            .invalidArgument,
            "--policy names \(unknown), which is no synced table, nor a column apart from its key.",
            fix: "The synced tables are \(tables.map(\.name).sorted().joined(separator: ", "))."
        )
    }

    /// The policies after changes; a table under `reject`, and a column under its table's policy,
    /// have none of their own.
    public func policies(after changes: [PolicyChange]) -> [String: ConflictPolicy] {
        var policies = policies
        for change in changes { policies[change.name] = change.new }
        return policies.filter { name, policy in
            let isTable = byName[name] != nil
            return policy != (isTable ? .reject : policies[tableName(of: name)] ?? .reject)
        }
    }

    /// The table of a policy's name.
    private func tableName(of name: String) -> String {
        guard byName[name] == nil else { return name }
        return tables.first { name.hasPrefix("\($0.name).") }?.name ?? name
    }
}
