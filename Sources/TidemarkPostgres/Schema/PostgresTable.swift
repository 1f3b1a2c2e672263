import TidemarkCore
import TidemarkSQL

/// A synced table in PostgreSQL, with SQL fragments for its rows; `$1` of a statement is the zone.
struct PostgresTable: Hashable, Sendable {
    /// The table as devices know it.
    let table: SyncedTable
    /// The PostgreSQL schema of the table.
    let namespace: String
    /// The zone column; nil if all rows belong to one zone.
    let zoneColumn: String?
    /// The columns' types, as PostgreSQL spells them.
    let types: [String: String]
    /// The columns that PostgreSQL computes, which devices only read.
    let generated: Set<String>
    /// The expression of each column's default, in PostgreSQL's SQL.
    let defaults: [String: String]
    /// The sequence behind the key's default, in PostgreSQL's SQL.
    let sequence: String?
    /// The columns of each unique index by its name, without zone column and expressions.
    let uniques: [String: [String]]

    /// The table's name with its schema, quoted.
    var name: String { "\(SQLText.name(namespace)).\(SQLText.name(table.name))" }
    var literal: String { SQLText.literal(table.name) }

    /// The kinds of the columns, in the order of ``TidemarkCore/SyncedTable/columns``.
    let kinds: [PostgresType]

    init(
        table: SyncedTable, namespace: String, zoneColumn: String?, types: [String: String],
        generated: Set<String> = [], defaults: [String: String] = [:], sequence: String? = nil,
        uniques: [String: [String]] = [:]
    ) {
        self.table = table
        self.namespace = namespace
        self.zoneColumn = zoneColumn
        self.types = types
        self.generated = generated
        self.defaults = defaults
        self.sequence = sequence
        self.uniques = uniques
        kinds = table.columns.map { PostgresType(column: types[$0.name] ?? "text", declared: $0.type) }
    }

    func kind(_ column: String) -> PostgresType {
        guard let place = table.columns.firstIndex(where: { $0.name == column }) else {
            return PostgresType(column: type(column))
        }
        return kinds[place]
    }

    /// Whether PostgreSQL reads one value of a column in several spellings.
    func hasSpellings(_ column: String) -> Bool {
        let texts = ["text", "character varying", "citext", "json", "name"]
        return switch kind(column) {
        case .integer, .real, .boolean, .bytes, .mixed: false
        case .text: !texts.contains(PostgresType.baseName(type(column)))
        default: true
        }
    }

    /// The type of a column, for casts.
    func type(_ column: String) -> String { types[column] ?? "text" }

    /// A column's type without length, for casts of written values and keys: a cast cuts a longer value silently.
    func wholeType(_ column: String) -> String {
        let type = type(column)
        let rest = type.drop { $0 != ")" }.dropFirst()
        return Self.wholeTypes[String(type.prefix { $0 != "(" })].map { "\($0)\(rest)" } ?? type
    }

    private static let wholeTypes = [
        "character varying": "character varying", "character": "bpchar", "bit varying": "bit varying",
        "bit": "bit varying",
    ]

    /// A column, qualified with an alias.
    func column(_ column: String, _ alias: String) -> String { "\(alias).\(SQLText.name(column))" }

    func inZone(_ alias: String) -> String { zoneColumn.map { "\(alias).\(SQLText.name($0)) = $1" } ?? "true" }

    /// A row's key in canonical JSON.
    func keyJSON(_ alias: String) -> String {
        let parts = table.key.map { kind($0).json(column($0, alias)) }
        return parts.count == 1 ? parts[0] : "'[' || \(parts.joined(separator: " || ',' || ")) || ']'"
    }

    /// A row's value columns as a canonical JSON object; `replacing` has the JSON of other values.
    func rowJSON(_ alias: String, replacing: [String: String] = [:]) -> String {
        object(table.valueColumns.map(\.name), alias: alias, replacing: replacing)
    }

    /// A row's value columns sorted by name, for its hash.
    func imageJSON(_ alias: String) -> String { object(RowJSON.hashedColumns(table), alias: alias) }

    private func object(_ columns: [String], alias: String, replacing: [String: String] = [:]) -> String {
        guard !columns.isEmpty else { return "'{}'" }
        let members = columns.enumerated().map { index, name in
            let lead = (index == 0 ? "{" : ",") + JSONText.quote(WireName.member(column: name)) + ":"
            let value = replacing[name].map { SQLText.literal($0) }
            return "\(SQLText.literal(lead)) || \(value ?? kind(name).json(column(name, alias)))"
        }
        return "(\(members.joined(separator: " || ")) || '}')"
    }
}
