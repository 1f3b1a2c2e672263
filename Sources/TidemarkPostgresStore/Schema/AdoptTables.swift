import Foundation
import TidemarkCore
import TidemarkSQLite

/// Describes the tables of a PostgreSQL schema in SQLite's words, as devices will have them.
///
/// The tables stay as they are, and remain usable by their other programs: only foreign keys become
/// deferrable, which changes nothing for whoever does not ask for it. Keys, references, unique
/// constraints, NOT NULL and literal defaults go to devices; CHECK constraints, generated columns
/// and expressions stay with PostgreSQL, which judges what devices send.
struct AdoptTables {
    let pg: PostgresConnection
    let namespace: String
    /// The column that holds the zone; nil when all rows are one zone's.
    let zoneColumn: String?
    var excluding: Set<String>
    /// Tables that are served already: whether rows can change past their triggers was asked when
    /// they were taken.
    var served: Set<String> = []
    /// Tables whose integer keys are not the server's to give, as devices know them.
    var plainKeys: Set<String> = []

    /// A table as it was found.
    struct Found: Hashable {
        let name: String
        /// The `CREATE TABLE` statement for SQLite.
        let statement: String
    }

    /// The `CREATE TABLE` statements for SQLite.
    ///
    /// - Throws: ``TidemarkCore/UnsyncableSchema`` with every problem at once.
    func statements() throws -> [String] {
        let (found, problems) = try survey()
        guard problems.isEmpty else { throw UnsyncableSchema(problems: problems) }
        return found.map(\.statement)
    }

    /// The tables that can be synced, and why the others cannot.
    func survey() throws -> (found: [Found], problems: [SchemaProblem]) {
        let tables = try pg.query(
            """
            SELECT c.relname, c.relkind = 'p', pg_has_role(c.relowner, 'USAGE'),
                EXISTS (SELECT 1 FROM pg_subscription_rel AS s WHERE s.srrelid = c.oid)
            FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
            WHERE n.nspname = $1 AND c.relkind IN ('r', 'p') AND NOT c.relispartition
            ORDER BY c.relname
            """,
            [namespace]
        ).map { (name: $0.text(0), isPartitioned: $0.isTrue(1), isOwned: $0.isTrue(2), isReplica: $0.isTrue(3)) }.filter
        { !excluding.contains($0.name) }
        let (unfit, unseen) = try (unfitColumns(), unseenWrites())
        var (keys, problems) = ([(name: String, key: [String])](), [SchemaProblem]())
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
            } else if let found = unfit[name] {
                problems += found
            } else if !served.contains(name), let found = try unseen[name] ?? unholdable(name) {
                problems.append(found)
            } else {
                keys.append((name, withoutZone(key)))
            }
        }
        let names = Set(keys.map(\.name))
        let found = try keys.map { Found(name: $0.name, statement: try statement($0.name, key: $0.key, among: names)) }
        return (found, problems)
    }

    /// Makes the foreign keys of tables deferrable: a change set is judged at its end.
    func deferReferences(of tables: Set<String>) throws {
        let constraints = try pg.query(
            """
            SELECT t.relname, quote_ident(c.conname)
            FROM pg_constraint AS c JOIN pg_namespace AS n ON n.oid = c.connamespace
            JOIN pg_class AS t ON t.oid = c.conrelid
            WHERE n.nspname = $1 AND c.contype = 'f' AND NOT c.condeferrable AND c.conparentid = 0
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
            SELECT a.attname FROM pg_index AS i, unnest(i.indkey) WITH ORDINALITY AS k (attnum, place),
                pg_attribute AS a
            WHERE i.indrelid = to_regclass($1) AND i.indisprimary
                AND a.attrelid = i.indrelid AND a.attnum = k.attnum ORDER BY k.place
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
            SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
                pg_get_expr(d.adbin, d.adrelid)
            FROM pg_attribute AS a LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
            WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped
                AND a.attgenerated = '' AND a.attname <> coalesce($2, '')
            ORDER BY a.attnum
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
            if let value = try row[3].flatMap({ try standard($0, type: row.text(1)) }) { column += " DEFAULT \(value)" }
            return column
        }
    }

    private func keyPart(_ table: String, _ key: [String]) throws -> [String] {
        let type = try pg.text(
            """
            SELECT format_type(atttypid, atttypmod) FROM pg_attribute
            WHERE attrelid = to_regclass($1) AND attname = $2
            """,
            [regclass(table), key[0]]
        )
        // Said with the column already.
        if key.count == 1, PostgresType(column: type ?? "") == .integer { return [] }
        return ["PRIMARY KEY (\(SQLText.names(key)))"]
    }

    private func uniques(of table: String) throws -> [String] {
        try pg.query(
            """
            SELECT string_agg(a.attname, chr(10) ORDER BY k.place)
            FROM pg_index AS i, unnest(i.indkey) WITH ORDINALITY AS k (attnum, place), pg_attribute AS a
            WHERE i.indrelid = to_regclass($1) AND i.indisunique AND NOT i.indisprimary
                AND i.indpred IS NULL AND i.indexprs IS NULL
                AND a.attrelid = i.indrelid AND a.attnum = k.attnum
            GROUP BY i.indexrelid ORDER BY 1
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
            SELECT p.relname, c.confdeltype, string_agg(a.attname, chr(10) ORDER BY k.place),
                string_agg(b.attname, chr(10) ORDER BY k.place)
            FROM pg_constraint AS c JOIN pg_class AS p ON p.oid = c.confrelid,
                unnest(c.conkey, c.confkey) WITH ORDINALITY AS k (own, other, place),
                pg_attribute AS a, pg_attribute AS b
            WHERE c.conrelid = to_regclass($1) AND c.contype = 'f'
                AND a.attrelid = c.conrelid AND a.attnum = k.own
                AND b.attrelid = c.confrelid AND b.attnum = k.other
            GROUP BY c.oid, p.relname, c.confdeltype ORDER BY c.oid
            """,
            [regclass(table)]
        )
        return rows.map { $0 }.filter { tables.contains($0.text(0)) }.map { row in
            let (own, other) = (columns(row.text(2)), columns(row.text(3)))
            let action = ["r": "RESTRICT", "c": "CASCADE", "n": "SET NULL", "d": "SET DEFAULT"][row.text(1)]
            return """
                FOREIGN KEY (\(SQLText.names(own))) REFERENCES \(SQLText.name(row.text(0))) \
                (\(SQLText.names(other)))\(action.map { " ON DELETE \($0)" } ?? "")
                """
        }
    }

    private func columns(_ list: String) -> [String] { withoutZone(list.split(separator: "\n").map(String.init)) }

    // MARK: Defaults

    /// A default in SQLite's words; nil for an expression, which PostgreSQL keeps to itself.
    private func standard(_ expression: String, type: String) throws -> String? {
        let kind = PostgresType(column: type)
        guard Self.isConstant(expression) else { return Self.moment(expression, kind) }
        // Devices get the value that PostgreSQL's own rows get: `1.50`, or a moment in UTC.
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

    private static func moment(_ expression: String, _ kind: PostgresType) -> String? {
        switch (expression.lowercased(), kind) {
        case ("now()", .text), ("current_timestamp", .text): "CURRENT_TIMESTAMP"
        case ("current_date", .text): "CURRENT_DATE"
        default: nil
        }
    }

    /// Whether a default is the same at any time: a number, a word, or a text, as PostgreSQL spells
    /// them with their types, or an array of such.
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
