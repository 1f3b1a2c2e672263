import TidemarkCore
import TidemarkSQL

/// Describes the tables of a PostgreSQL schema in SQLite's dialect, as devices will create them.
///
/// Adoption changes the tables only by making foreign keys deferrable, so other programs keep working.
/// Devices get keys, references, unique constraints, NOT NULL and literal defaults. A generated column
/// is an ordinary column there, and PostgreSQL computes its value. CHECK constraints and expressions
/// stay in PostgreSQL, which validates the devices' values.
struct AdoptTables {
    let pg: PostgresConnection
    let namespace: String
    /// The zone column; nil if all rows belong to one zone.
    let zoneColumn: String?
    var excluding: Set<String>
    /// The keys of tables without a primary key: those that the operator declares, or that are served.
    var keys: [String: [String]] = [:]
    /// Tables that are served already; their adoption has checked that triggers see all writes.
    var served: Set<String> = []
    /// Tables whose integer keys the server does not assign.
    var plainKeys: Set<String> = []
    /// The types in which devices declare new columns.
    var deviceTypes = DeviceTypes()
    /// The types in which devices declare served columns.
    var servedTypes = ServedTypes.none
    /// Generated columns that devices compute themselves, by table.
    var computedColumns: [String: Set<String>] = [:]

    struct AdoptedTable: Hashable {
        let name: String
        /// The `CREATE TABLE` statement for SQLite.
        let statement: String
    }

    /// Returns `CREATE TABLE` statements for SQLite; throws ``TidemarkCore/UnsyncableSchema`` with every problem.
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
        { !excluding.contains($0.name) && !SchemaIntrospection.isOthers($0.name) }
        let columnProblems = try unfitColumns()
        let captureProblems = try uncapturedWrites()
        var keys: [(name: String, key: [String])] = []
        var problems: [SchemaProblem] = []
        for (name, isPartitioned, isOwned, isReplica) in tables {
            let key = try keyOrUnique(of: name)
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

    func regclass(_ table: String) -> String { "\(SQLText.name(namespace)).\(SQLText.name(table))" }

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

    /// Returns the primary key, or the columns of a unique index that are NOT NULL; empty if there is neither.
    ///
    /// Of several indexes, it takes the one of the declared or served key, or else the one with the fewest columns.
    func keyOrUnique(of table: String) throws -> [String] {
        let primaryKey = try key(of: table)
        guard primaryKey.isEmpty else { return primaryKey }
        let candidates = try pg.query(
            """
            SELECT string_agg(attribute.attname, chr(10) ORDER BY part.place)
            FROM pg_index AS index, unnest(index.indkey) WITH ORDINALITY AS part (attnum, place),
                pg_attribute AS attribute
            WHERE index.indrelid = to_regclass($1)
                AND index.indisunique AND index.indimmediate AND index.indisvalid
                AND index.indpred IS NULL AND index.indexprs IS NULL
                AND part.place <= index.indnkeyatts
                AND attribute.attrelid = index.indrelid AND attribute.attnum = part.attnum
            GROUP BY index.indexrelid
            HAVING bool_and(attribute.attnotnull)
            ORDER BY count(*), 1
            """,
            [regclass(table)]
        ).map { $0.text(0).split(separator: "\n").map(String.init) }
        let declared = keys[table].map { Set(([zoneColumn].compactMap { $0 }) + $0) }
        guard let declared else { return candidates.first { zoneColumn == nil || $0.first == zoneColumn } ?? [] }
        return candidates.first { Set($0) == declared && (zoneColumn == nil || $0.first == zoneColumn) } ?? []
    }

    func withoutZone(_ columns: [String]) -> [String] { columns.filter { $0 != zoneColumn } }

    func statement(_ table: String, key: [String], among tables: Set<String>) throws -> String {
        let parts =
            try columns(of: table, key) + (key.isEmpty ? [] : keyPart(table, key)) + uniques(of: table)
            + references(of: table, among: tables)
        return "CREATE TABLE \(SQLText.name(table)) (\n    \(parts.joined(separator: ",\n    "))\n)"
    }

    private func columns(of table: String, _ key: [String]) throws -> [String] {
        try pg.query(
            """
            SELECT attribute.attname, format_type(attribute.atttypid, attribute.atttypmod),
                attribute.attnotnull, pg_get_expr(preset.adbin, preset.adrelid),
                attribute.attgenerated <> '', attribute.attnum, attribute.attrelid
            FROM pg_attribute AS attribute
            LEFT JOIN pg_attrdef AS preset
                ON preset.adrelid = attribute.attrelid AND preset.adnum = attribute.attnum
            WHERE attribute.attrelid = to_regclass($1) AND attribute.attnum > 0 AND NOT attribute.attisdropped
                AND attribute.attgenerated IN ('', 's') AND attribute.attname <> coalesce($2, '')
                AND attribute.attname <> ALL ($3::text[])
            ORDER BY attribute.attnum
            """,
            [regclass(table), zoneColumn, PostgresArray.quoted(computedColumns[table, default: []].sorted())]
        ).map { row throws -> String in
            let name = row.text(0)
            let type = row.text(1)
            let declared = try declaredType(row, table)
            var column = "\(SQLText.name(name)) \(declared)"
            if key == [name], PostgresType(column: type) == .integer {
                let isPlain = try plainKeys.contains(table) || self.key(of: table).isEmpty
                return "\(SQLText.name(name)) \(isPlain ? "BIGINT" : declared) PRIMARY KEY"
            }
            // Without COLLATE, a key that a program spells in capitals would be another row on its device.
            if PostgresType.baseName(type) == "uuid" { column += " COLLATE NOCASE" }
            // The device's programs do not write a generated column.
            guard !row.isTrue(4) else { return column }
            if row.isTrue(2) { column += " NOT NULL" }
            let kind = PostgresType(column: type, declared: declared)
            let preset = try row[3].flatMap { try sqliteDefault($0, type: type, kind) }
            return column + (preset.map { " DEFAULT \($0)" } ?? "")
        }
    }

    /// Returns the declared type of a column, given by its row in the catalogue.
    private func declaredType(_ row: PostgresRows.Row, _ table: String) throws -> String {
        let name = row.text(0)
        let type = row.text(1)
        let served = servedTypes.declaredType(of: name, in: table, number: row.integer(5), tableNumber: row.integer(6))
        if let served, DeviceTypes.isKept(served, for: type) { return served }
        return try deviceTypes.declaredType(of: name, in: table, type: type)
    }

    private func keyPart(_ table: String, _ key: [String]) throws -> [String] {
        let type = try pg.text(
            """
            SELECT format_type(atttypid, atttypmod)
            FROM pg_attribute
            WHERE attrelid = to_regclass($1) AND attname = $2
            """,
            [regclass(table), key[0]])
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
            [regclass(table)])
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
}
