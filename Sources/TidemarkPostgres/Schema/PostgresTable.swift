import TidemarkCore
import TidemarkSQL

/// A synced table in PostgreSQL, with SQL fragments for its rows.
///
/// The first parameter of a statement, `$1`, is the zone.
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
    var generated: Set<String> = []
    /// The expression of each column's default, in PostgreSQL's SQL.
    var defaults: [String: String] = [:]
    /// The sequence behind the key's default, in PostgreSQL's SQL.
    var sequence: String?
    /// The columns of each unique index by its name, without zone column and expressions.
    var uniques: [String: [String]] = [:]

    /// The table's name with its schema, quoted.
    var name: String { "\(SQLText.name(namespace)).\(SQLText.name(table.name))" }

    /// The table's name as a literal.
    var literal: String { SQLText.literal(table.name) }

    /// The kind of a column.
    func kind(_ column: String) -> PostgresType {
        let declared = table.columns.first { $0.name == column }
        return PostgresType(column: type(column), declared: declared?.type ?? "TEXT")
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

    /// The type of a column without its length, for casts of written values and of keys.
    ///
    /// A cast to a length cuts a longer value silently; an assignment refuses it.
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

    /// The condition that a row is in the zone.
    func inZone(_ alias: String) -> String { zoneColumn.map { "\(alias).\(SQLText.name($0)) = $1" } ?? "true" }

    /// A row's key in canonical JSON.
    func keyJSON(_ alias: String) -> String {
        let parts = table.key.map { kind($0).json(column($0, alias)) }
        return parts.count == 1 ? parts[0] : "'[' || \(parts.joined(separator: " || ',' || ")) || ']'"
    }

    /// A row's value columns as a canonical JSON object.
    ///
    /// `replacing` has canonical JSON for columns whose value it replaces.
    func rowJSON(_ alias: String, replacing: [String: String] = [:]) -> String {
        object(table.valueColumns.map(\.name), alias: alias, replacing: replacing)
    }

    /// A row's value columns sorted by name, for its hash.
    func imageJSON(_ alias: String) -> String { object(RowJSON.hashedColumns(table), alias: alias) }

    private func object(_ columns: [String], alias: String, replacing: [String: String] = [:]) -> String {
        guard !columns.isEmpty else { return "'{}'" }
        let members = columns.enumerated().map { index, name in
            let lead = (index == 0 ? "{" : ",") + ChangeSetJSON.quote(WireName.member(column: name)) + ":"
            let value = replacing[name].map { SQLText.literal($0) }
            return "\(SQLText.literal(lead)) || \(value ?? kind(name).json(column(name, alias)))"
        }
        return "(\(members.joined(separator: " || ")) || '}')"
    }

    /// The value of a column in a staged record, whose values are a JSON object of texts.
    func staged(_ column: String, _ alias: String = "staged") -> String {
        "(\(alias).v ->> \(SQLText.literal(column)))::\(wholeType(column))"
    }

    /// The value of a column plus its delta in a staged record.
    ///
    /// PostgreSQL refuses a sum beyond the column's type. There is no sum with NULL, so this takes a
    /// number in its place that no integer type holds.
    func sum(_ column: String, _ alias: String, staged: String = "staged") -> String {
        let current = "coalesce(\(self.column(column, alias))::numeric, 1e20)"
        return "(\(current) + (\(staged).d ->> \(SQLText.literal(column)))::numeric)::\(wholeType(column))"
    }

    /// The value of a column in a staged record, to compare with rows.
    ///
    /// It may be a temporary id, which is too large for a column of 32 bits.
    func comparable(_ column: String, _ alias: String = "staged") -> String {
        kind(column) == .integer ? "(\(alias).v ->> \(SQLText.literal(column)))::bigint" : staged(column, alias)
    }

    /// The condition that a row has the key of a staged record.
    func matches(_ alias: String, staged: String = "staged") -> String {
        ([inZone(alias)] + table.key.map { "\(column($0, alias)) = \(comparable($0, staged))" }).joined(
            separator: " AND "
        )
    }
}

/// SQL for the staged records of a table.
enum StagedSet {
    /// A derived table of the JSON in a parameter.
    ///
    /// `v` holds the values by column, as texts in PostgreSQL's own spelling, and `d` the deltas.
    static func records(_ parameter: Int, _ alias: String = "staged") -> String {
        """
        jsonb_to_recordset($\(parameter)::jsonb) AS \(alias) (
            rec bigint, tbl text, key text, operation text, base bigint, seen jsonb, v jsonb, d jsonb)
        """
    }
}
