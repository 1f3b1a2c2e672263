import TidemarkCore

/// The names of tables and key columns where OpenAPI restricts them, each of them once.
///
/// A component has letters, digits, `-`, `_` and `.` only. The names of tables have no point, which stands before the
/// part of a table's component and in the names of components that all tables share.
struct ComponentNames: Sendable {
    private let names: [String: String]

    /// Chooses names for the tables of a schema, in the order of their names, so that equal schemas have equal ones.
    init(_ schema: SyncSchema) { names = Self.distinct(schema.tables.map(\.name).sorted()) }

    /// The name of a table's component: `player`.
    subscript(table: String) -> String { names[table] ?? Self.clean(table) }

    /// A reference to a component of a table: `part` of `player` is `player.part`.
    func reference(_ table: String, _ part: String? = nil) -> JSONTree { Self.reference(name(table, part)) }

    func name(_ table: String, _ part: String? = nil) -> String { self[table] + (part.map { ".\($0)" } ?? "") }

    /// A reference to a schema that all tables share.
    static func shared(_ name: String) -> JSONTree { reference("tidemark.\(name)") }

    /// The parameters that stand for the columns of a key in a path, in the order of the key.
    static func keyParameters(of table: SyncedTable) -> [String] {
        let names = distinct(table.key)
        return table.key.map { names[$0] ?? "key" }
    }

    private static func reference(_ name: String) -> JSONTree { ["$ref": "#/components/schemas/\(name)"] }

    /// Returns a name for each text; of two texts with one clean form, the later has a number.
    private static func distinct(_ texts: [String]) -> [String: String] {
        var names: [String: String] = [:]
        var used: Set<String> = []
        // Texts that are clean already keep their form.
        for text in texts where clean(text) == text { used.insert(text) }
        for text in texts {
            let start = clean(text)
            var name = start
            var number = 2
            while name != text, !used.insert(name).inserted {
                name = "\(start)-\(number)"
                number += 1
            }
            names[text] = name
        }
        return names
    }

    private static func clean(_ text: String) -> String {
        let clean = text.unicodeScalars.map { scalar in
            let isPlain = scalar.isASCII && (scalar.properties.isAlphabetic || ("0"..."9").contains(scalar))
            return isPlain || scalar == "_" || scalar == "-" ? Character(scalar) : "_"
        }
        return String(clean)
    }
}
