extension SyncSchema {
    /// The longest chain of references; references can form a cycle.
    private static let referenceDepthMax = 16

    /// Returns the columns that refer to an integer key, also by way of others, and so may contain a temporary id.
    package func integerReferences(of table: SyncedTable) -> [(column: String, parent: String)] {
        table.references.flatMap { reference in
            zip(reference.columns, reference.parentColumns).compactMap { column, target in
                integerKeyedTable(of: target, in: reference.parent, depth: 0).map { (column, $0) }
            }
        }
    }

    /// Returns the integer-keyed table that a column refers to, directly or indirectly.
    private func integerKeyedTable(of column: String, in table: String, depth: Int) -> String? {
        guard depth < Self.referenceDepthMax, let table = byName[table] else { return nil }
        if table.keyKind == .integer, table.key == [column] { return table.name }
        for reference in table.references {
            for (child, target) in zip(reference.columns, reference.parentColumns) where child == column {
                let parent = integerKeyedTable(of: target, in: reference.parent, depth: depth + 1)
                if let parent { return parent }
            }
        }
        return nil
    }
}
