import Foundation
import TidemarkCore
import TidemarkSQL

/// Describes the tables of a PostgreSQL schema in SQLite's dialect, as devices will create them.
///
/// Adoption changes the tables only by making foreign keys deferrable, so other programs keep working.
/// Devices get keys, references, unique constraints, NOT NULL and literal defaults. CHECK constraints,
/// generated columns and expressions stay in PostgreSQL, which validates the devices' values.
struct AdoptTables {
    let pg: PostgresConnection
    let namespace: String
    /// The zone column; nil if all rows belong to one zone.
    let zoneColumn: String?
    var excluding: Set<String>
    /// Tables that are served already; their adoption has checked that triggers see all writes.
    var served: Set<String> = []
    /// Tables whose integer keys the server does not assign.
    var plainKeys: Set<String> = []

    /// A table that can be synced.
    struct AdoptedTable: Hashable {
        let name: String
        /// The `CREATE TABLE` statement for SQLite.
        let statement: String
    }

    /// Returns the `CREATE TABLE` statements for SQLite.
    ///
    /// - Throws: ``TidemarkCore/UnsyncableSchema`` with every problem at once.
    func statements() throws -> [String] {
        let (tables, problems) = try survey()
        guard problems.isEmpty else { throw UnsyncableSchema(problems: problems) }
        return tables.map(\.statement)
    }

    /// Finds the tables that can be synced, and the problems of the others.
    func survey() throws -> (tables: [AdoptedTable], problems: [SchemaProblem]) {
        let tables = try pg.query(
            """
            SELECT class.relname, class.relkind = 'p', pg_has_role(class.relowner, 'USAGE'),
                EXISTS (SELECT 1 FROM pg_subscription_rel AS subscribed WHERE subscribed.srrelid = class.oid)
            FROM pg_class AS class
            JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
            WHERE namespace.nspname = $1 AND class.relkind IN ('r', 'p') AND NOT class.relispartition
            ORDER BY class.relname
            """,
            [namespace]
        ).map { (name: $0.text(0), isPartitioned: $0.isTrue(1), isOwned: $0.isTrue(2), isReplica: $0.isTrue(3)) }.filter
        { !excluding.contains($0.name) }
        let columnProblems = try unfitColumns()
        let captureProblems = try uncapturedWrites()
        var keys: [(name: String, key: [String])] = []
        var problems: [SchemaProblem] = []
        for (name, isPartitioned, isOwned, isReplica) in tables {
            let key = try key(of: name)
            if isPartitioned {
                problems.append(Self.partitioned(name))
            } else if !isOwned {
                problems.append(Self.foreign(name))
            } else if isReplica {
                problems.append(Self.replica(name))
            } else if let problem = keyProblem(name, key) {
                problems.append(problem)
            } else if let unfit = columnProblems[name] {
                problems += unfit
            } else if !served.contains(name), let problem = try captureProblems[name] ?? nanProblem(name) {
                problems.append(problem)
            } else {
                keys.append((name, withoutZone(key)))
            }
        }
        let names = Set(keys.map(\.name))
        let adopted = try keys.map {
            AdoptedTable(name: $0.name, statement: try statement($0.name, key: $0.key, among: names))
        }
        return (adopted, problems)
    }

    /// Makes the foreign keys of tables deferrable, to check them at the end of a change set.
    func deferReferences(of tables: Set<String>) throws {
        let constraints = try pg.query(
            """
            SELECT class.relname, quote_ident(constrained.conname)
            FROM pg_constraint AS constrained
            JOIN pg_namespace AS namespace ON namespace.oid = constrained.connamespace
            JOIN pg_class AS class ON class.oid = constrained.conrelid
            WHERE namespace.nspname = $1
                AND constrained.contype = 'f' AND NOT constrained.condeferrable AND constrained.conparentid = 0
            """,
            [namespace]
        ).map { ($0.text(0), $0.text(1)) }
        for (table, name) in constraints where tables.contains(table) {
            try pg.execute("ALTER TABLE \(regclass(table)) ALTER CONSTRAINT \(name) DEFERRABLE INITIALLY IMMEDIATE")
        }
    }

    // MARK: One table

    private func regclass(_ table: String) -> String { "\(SQLText.name(namespace)).\(SQLText.name(table))" }

    private func key(of table: String) throws -> [String] {
        try pg.query(
            """
            SELECT attribute.attname
            FROM pg_index AS index, unnest(index.indkey) WITH ORDINALITY AS part (attnum, place),
                pg_attribute AS attribute
            WHERE index.indrelid = to_regclass($1) AND index.indisprimary
                AND attribute.attrelid = index.indrelid AND attribute.attnum = part.attnum
            ORDER BY part.place
            """,
            [regclass(table)]
        ).map { $0.text(0) }
    }

    func withoutZone(_ columns: [String]) -> [String] { columns.filter { $0 != zoneColumn } }

    private func statement(_ table: String, key: [String], among tables: Set<String>) throws -> String {
        let parts =
            try columns(of: table, key) + keyPart(table, key) + uniques(of: table)
            + references(of: table, among: tables)
        return "CREATE TABLE \(SQLText.name(table)) (\n    \(parts.joined(separator: ",\n    "))\n)"
    }

    private func columns(of table: String, _ key: [String]) throws -> [String] {
        try pg.query(
            """
            SELECT attribute.attname, format_type(attribute.atttypid, attribute.atttypmod),
                attribute.attnotnull, pg_get_expr(preset.adbin, preset.adrelid)
            FROM pg_attribute AS attribute
            LEFT JOIN pg_attrdef AS preset
                ON preset.adrelid = attribute.attrelid AND preset.adnum = attribute.attnum
            WHERE attribute.attrelid = to_regclass($1) AND attribute.attnum > 0 AND NOT attribute.attisdropped
                AND attribute.attgenerated = '' AND attribute.attname <> coalesce($2, '')
            ORDER BY attribute.attnum
            """,
            [regclass(table), zoneColumn]
        ).map { row in
            let kind = PostgresType(column: row.text(1))
            var column = "\(SQLText.name(row.text(0))) \(kind.deviceType)"
            if key == [row.text(0)], kind == .integer {
                let type = plainKeys.contains(table) ? "BIGINT" : kind.deviceType
                return "\(SQLText.name(row.text(0))) \(type) PRIMARY KEY"
            }
            if row.isTrue(2) { column += " NOT NULL" }
            let preset = try row[3].flatMap { try sqliteDefault($0, type: row.text(1)) }
            return column + (preset.map { " DEFAULT \($0)" } ?? "")
        }
    }

    private func keyPart(_ table: String, _ key: [String]) throws -> [String] {
        let type = try pg.text(
            """
            SELECT format_type(atttypid, atttypmod)
            FROM pg_attribute
            WHERE attrelid = to_regclass($1) AND attname = $2
            """,
            [regclass(table), key[0]]
        )
        // The column's definition already has PRIMARY KEY.
        if key.count == 1, PostgresType(column: type ?? "") == .integer { return [] }
        return ["PRIMARY KEY (\(SQLText.names(key)))"]
    }

    private func uniques(of table: String) throws -> [String] {
        try pg.query(
            """
            SELECT string_agg(attribute.attname, chr(10) ORDER BY part.place)
            FROM pg_index AS index, unnest(index.indkey) WITH ORDINALITY AS part (attnum, place),
                pg_attribute AS attribute
            WHERE index.indrelid = to_regclass($1) AND index.indisunique AND NOT index.indisprimary
                AND index.indpred IS NULL AND index.indexprs IS NULL
                AND attribute.attrelid = index.indrelid AND attribute.attnum = part.attnum
            GROUP BY index.indexrelid
            ORDER BY 1
            """,
            [regclass(table)]
        ).map { row in
            let columns = row.text(0).split(separator: "\n").map(String.init)
            return "UNIQUE (\(SQLText.names(withoutZone(columns))))"
        }
    }

    private func references(of table: String, among tables: Set<String>) throws -> [String] {
        let rows = try pg.query(
            """
            SELECT parent.relname, reference.confdeltype,
                string_agg(child_column.attname, chr(10) ORDER BY part.place),
                string_agg(parent_column.attname, chr(10) ORDER BY part.place)
            FROM pg_constraint AS reference JOIN pg_class AS parent ON parent.oid = reference.confrelid,
                unnest(reference.conkey, reference.confkey) WITH ORDINALITY AS part (child, parent, place),
                pg_attribute AS child_column, pg_attribute AS parent_column
            WHERE reference.conrelid = to_regclass($1) AND reference.contype = 'f'
                AND child_column.attrelid = reference.conrelid AND child_column.attnum = part.child
                AND parent_column.attrelid = reference.confrelid AND parent_column.attnum = part.parent
            GROUP BY reference.oid, parent.relname, reference.confdeltype
            ORDER BY reference.oid
            """,
            [regclass(table)]
        )
        return rows.map { $0 }.filter { tables.contains($0.text(0)) }.map { row in
            let childColumns = columns(row.text(2))
            let parentColumns = columns(row.text(3))
            let action = ["r": "RESTRICT", "c": "CASCADE", "n": "SET NULL", "d": "SET DEFAULT"][row.text(1)]
            return """
                FOREIGN KEY (\(SQLText.names(childColumns))) REFERENCES \(SQLText.name(row.text(0))) \
                (\(SQLText.names(parentColumns)))\(action.map { " ON DELETE \($0)" } ?? "")
                """
        }
    }

    private func columns(_ list: String) -> [String] { withoutZone(list.split(separator: "\n").map(String.init)) }

    // MARK: Defaults

    /// Returns a default in SQLite's dialect; nil for an expression that only PostgreSQL can compute.
    private func sqliteDefault(_ expression: String, type: String) throws -> String? {
        let kind = PostgresType(column: type)
        guard Self.isConstant(expression) else { return Self.currentTime(expression, kind) }
        // PostgreSQL computes the text, so that devices insert exactly the same, such as `1.50`.
        let value = "(\(expression))::\(type)"
        switch kind {
        case .integer, .real, .boolean:
            let text = try pg.rows("SELECT (\(value))::text")[0].text(0)
            if kind == .boolean { return text == "true" ? "1" : "0" }
            return Double(text)?.isFinite == true ? text : nil
        case .bytes: return try pg.text("SELECT 'X''' || encode(\(value), 'hex') || ''''")
        case .text, .mixed: return try pg.text("SELECT \(value)::text").map(SQLText.literal)
        }
    }

    private static func currentTime(_ expression: String, _ kind: PostgresType) -> String? {
        switch (expression.lowercased(), kind) {
        case ("now()", .text), ("current_timestamp", .text): "CURRENT_TIMESTAMP"
        case ("current_date", .text): "CURRENT_DATE"
        default: nil
        }
    }

    /// Whether a default is constant: a number, Boolean, text or array, with PostgreSQL's type casts.
    static func isConstant(_ expression: String) -> Bool {
        let value =
            /(?:-?[0-9.]+(?:e[+\-]?[0-9]+)?|true|false|'(?:[^']|'')*')(?:::[\w "\.]+(?:\([0-9, ]+\))?(?:\[\])*)?/
        let inBrackets = /\((.*)\)(?:::[\w "\.]+(?:\([0-9, ]+\))?(?:\[\])*)?/
        if expression.wholeMatch(of: value) != nil { return true }
        if let inner = expression.wholeMatch(of: inBrackets), inner.1.wholeMatch(of: value) != nil { return true }
        guard let array = expression.wholeMatch(of: /ARRAY\[(.*)\]/) else { return false }
        return array.1.split(separator: ", ").allSatisfy { isConstant(String($0)) }
    }
}
