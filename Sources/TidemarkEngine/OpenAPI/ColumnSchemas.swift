import TidemarkCore

// A STRICT table holds the type of a column and no other. Elsewhere SQLite converts a value by the column's affinity
// if that loses nothing, and stores it as it is if not. So the schemas name the affinity's own form first.

extension SyncedTable.Column {
    func answer(in table: SyncedTable) -> JSONTree {
        if table.keyKind == .integer, table.key == [name] { return ComponentNames.shared("Integer") }
        guard table.isStrict else { return ComponentNames.shared(affinityComponent) }
        return ComponentNames.shared(strictType ?? "AnyValue")
    }

    /// The schema of the column in requests, without NULL.
    func input(in table: SyncedTable) -> JSONTree {
        if table.keyKind == .integer, table.key == [name] { return ComponentNames.shared("Integer") }
        if table.key.contains(name) { return ComponentNames.shared("KeyInput") }
        guard table.isStrict, let type = strictType else { return ComponentNames.shared("AnyInput") }
        return ComponentNames.shared(type == "Blob" ? "Blob" : "\(type)Input")
    }

    private var affinityComponent: String {
        switch affinity {
        case "INTEGER": "IntegerAffinity"
        case "REAL": "RealAffinity"
        case "TEXT": "TextAffinity"
        case "NUMERIC": "NumericAffinity"
        default: "AnyValue"
        }
    }

    /// The component of the column's type in a STRICT table; nil for ANY.
    private var strictType: String? {
        switch type.uppercased() {
        case "INT", "INTEGER": "Integer"
        case "REAL": "Real"
        case "TEXT": "Text"
        case "BLOB": "Blob"
        default: nil
        }
    }
}

extension SyncedTable {
    /// Whether the table is STRICT: an option behind the parenthesis that ends its columns.
    fileprivate var isStrict: Bool {
        guard let end = sql.lastIndex(of: ")") else { return false }
        return sql[sql.index(after: end)...].split(separator: ",").contains { option in
            option.filter { !$0.isWhitespace }.uppercased() == "STRICT"
        }
    }
}
