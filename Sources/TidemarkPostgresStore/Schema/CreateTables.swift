import GRDB
import TidemarkCore
import TidemarkSQLite

/// Makes the tables of a schema in SQLite's words in PostgreSQL: the same columns, keys, references
/// and unique constraints, with the zone as the first part of every key.
///
/// SQLite has read the schema, so nothing is parsed but what it does not tell: CHECK constraints,
/// whose text PostgreSQL then reads. What PostgreSQL would do otherwise than devices is a problem,
/// listed with all others before anything is made.
struct CreateTables {
    /// An SQLite connection that has the tables.
    let db: Database
    let schema: SyncSchema
    let namespace: String
    /// The column for the zone; nil when all rows are one zone's.
    let zoneColumn: String?

    /// The tables as they will be.
    ///
    /// - Throws: ``TidemarkCore/UnsyncableSchema``.
    func tables() throws -> [PostgresTable] {
        var problems: [SchemaProblem] = []
        let tables = try schema.tables.map { table in
            var (types, defaults) = ([String: String](), [String: String]())
            for column in table.columns {
                if let type = DeclaredType(column.type) {
                    types[column.name] = type.name
                } else {
                    problems.append(Self.untyped(table, column))
                }
                guard let text = column.defaultSQL else { continue }
                if let value = try self.defaultSQL(text) {
                    defaults[column.name] = value
                } else {
                    problems.append(Self.computedDefault(table, column, text))
                }
            }
            problems += Self.misfits(of: table)
            return PostgresTable(
                table: table,
                namespace: namespace,
                zoneColumn: zoneColumn,
                types: types,
                defaults: defaults
            )
        }
        guard problems.isEmpty else { throw UnsyncableSchema(problems: problems) }
        return tables
    }

    /// The statements that make them, in an order that works.
    func statements(_ tables: [PostgresTable]) throws -> [String] {
        try tables.map(create) + tables.flatMap { uniques($0) }
            + tables.flatMap { try references($0) } + tables.flatMap { try indexes($0) }
            + tables.flatMap(checks)
    }

    // MARK: Statements

    /// The statements that add columns to a table which is there, with all constraints that name
    /// one of them; `checks` of its CHECK constraints are there already.
    func additions(of columns: [String], to table: PostgresTable, checks: Int) throws -> [String] {
        let isNew = { (names: [String]) in names.contains(where: columns.contains) }
        let added = table.table.columns.filter { columns.contains($0.name) }.map {
            "ALTER TABLE \(table.name) ADD COLUMN \(definition($0, table))"
        }
        let constraints = try uniques(table, where: isNew) + references(table, where: isNew)
        return try added + constraints + indexes(table, where: isNew)
            + self.checks(table).dropFirst(checks)
    }

    /// Columns of a key, of an index or of a reference, behind the zone.
    private func zoned(_ columns: [String]) -> String {
        SQLText.names([zoneColumn].compactMap { $0 } + columns)
    }

    private func definition(_ column: SyncedTable.Column, _ table: PostgresTable) -> String {
        let isRequired = column.isNotNull || table.table.key.contains(column.name)
        return "\(SQLText.name(column.name)) \(table.type(column.name))"
            + (isRequired ? " NOT NULL" : "")
            + (table.defaults[column.name].map { " DEFAULT \($0)" } ?? "")
    }

    private func create(_ table: PostgresTable) -> String {
        let zone = zoneColumn.map {
            "\(SQLText.name($0)) text COLLATE \"C\" NOT NULL DEFAULT 'main'"
        }
        let parts =
            table.table.columns.map { definition($0, table) } + [zone].compactMap { $0 }
            + ["PRIMARY KEY (\(zoned(table.table.key)))"]
        return """
            CREATE TABLE IF NOT EXISTS \(table.name) (
                \(parts.joined(separator: ",\n    "))
            )
            """
    }

    private func uniques(
        _ table: PostgresTable,
        where isWanted: ([String]) -> Bool = { _ in true }
    ) -> [String] {
        table.table.uniques.filter(isWanted).map {
            "ALTER TABLE \(table.name) ADD UNIQUE (\(zoned($0)))"
        }
    }

    private func references(
        _ table: PostgresTable,
        where isWanted: ([String]) -> Bool = { _ in true }
    ) throws -> [String] {
        let rules = try Row.fetchAll(
            db,
            sql: "SELECT DISTINCT id, on_update FROM pragma_foreign_key_list(?) ORDER BY id",
            arguments: [table.table.name]
        ).map { $0["on_update"] as String }
        return zip(table.table.references, rules).filter { isWanted($0.0.columns) }.map {
            reference,
            onUpdate in
            let columns = SQLText.names(reference.columns)
            // Of SET NULL and SET DEFAULT the zone is not a part.
            let needsColumns = [.setNull, .setDefault].contains(reference.onDelete)
            return """
                ALTER TABLE \(table.name) ADD FOREIGN KEY (\(zoned(reference.columns)))
                REFERENCES \(SQLText.name(namespace)).\(SQLText.name(reference.parent))
                    (\(zoned(reference.parentColumns)))
                ON DELETE \(reference.onDelete.rawValue)\(needsColumns ? " (\(columns))" : "")
                ON UPDATE \(["CASCADE", "RESTRICT"].contains(onUpdate) ? onUpdate : "NO ACTION")
                DEFERRABLE INITIALLY IMMEDIATE
                """
        }
    }

    private func indexes(
        _ table: PostgresTable,
        where isWanted: ([String]) -> Bool = { _ in true }
    ) throws -> [String] {
        let names = try String.fetchAll(
            db,
            sql: """
                SELECT name FROM pragma_index_list(?)
                WHERE origin = 'c' AND NOT "unique" AND NOT partial ORDER BY name
                """,
            arguments: [table.table.name]
        )
        return try names.compactMap { name in
            let columns = try String?.fetchAll(
                db,
                sql: "SELECT name FROM pragma_index_info(?) ORDER BY seqno",
                arguments: [name]
            )
            let named = columns.compactMap { $0 }
            guard named.count == columns.count, isWanted(named) else { return nil }
            return "CREATE INDEX ON \(table.name) (\(zoned(named)))"
        }
    }

    private func checks(_ table: PostgresTable) -> [String] {
        CheckText.expressions(in: table.table.sql).enumerated().map { number, expression in
            "ALTER TABLE \(table.name) ADD CONSTRAINT \(CheckText.constraint(number)) CHECK (\(expression))"
        }
    }

    // MARK: Defaults

    /// A default in PostgreSQL's words; nil for an expression that it may not understand.
    private func defaultSQL(_ text: String) throws -> String? {
        let now = "(now() AT TIME ZONE 'UTC')"
        switch text.uppercased() {
        case "CURRENT_TIMESTAMP": return "to_char(\(now), 'YYYY-MM-DD HH24:MI:SS')"
        case "CURRENT_DATE": return "to_char(\(now), 'YYYY-MM-DD')"
        case "CURRENT_TIME": return "to_char(\(now), 'HH24:MI:SS')"
        case "NULL": return "NULL"
        case "TRUE": return "'1'"
        case "FALSE": return "'0'"
        default: break
        }
        let isText = text.hasPrefix("'") && text.hasSuffix("'")
        if isText || Double(text) != nil { return isText ? text : "'\(text)'" }
        if text.uppercased().hasPrefix("X'"), text.hasSuffix("'") {
            return "'\\x\(text.dropFirst(2).dropLast())'"
        }
        return nil
    }

    // MARK: Problems

    private static func untyped(_ table: SyncedTable, _ column: SyncedTable.Column) -> SchemaProblem
    {
        SchemaProblem(
            table: table.name,
            column: column.name,
            reason: column.type.isEmpty
                ? "has no type; a column in PostgreSQL has one"
                : "is declared as \(column.type), in which SQLite keeps several types",
            cure: "\(column.name) TEXT -- or INTEGER, REAL, BLOB, BOOLEAN, DATETIME"
        )
    }

    private static func computedDefault(
        _ table: SyncedTable,
        _ column: SyncedTable.Column,
        _ text: String
    ) -> SchemaProblem {
        SchemaProblem(
            table: table.name,
            column: column.name,
            reason: "has the default \(text), which PostgreSQL may understand otherwise",
            cure: "\(column.name) \(column.type) DEFAULT 0 -- a literal, or CURRENT_TIMESTAMP"
        )
    }

    private static func misfits(of table: SyncedTable) -> [SchemaProblem] {
        var problems: [SchemaProblem] = []
        if SQLText.keywords(table.sql).contains("COLLATE")
            || table.indexSQL.contains(where: { SQLText.keywords($0).contains("COLLATE") })
        {
            problems.append(
                SchemaProblem(
                    table: table.name,
                    reason: "compares with a collation of SQLite's",
                    cure: "-- leave COLLATE out; unique values are told apart by their bytes"
                )
            )
        }
        let isPartial = table.indexSQL.contains {
            let words = SQLText.keywords($0)
            return words.contains("UNIQUE") && words.contains("WHERE")
        }
        if table.hasComputedUniques || isPartial {
            problems.append(
                SchemaProblem(
                    table: table.name,
                    reason: "has a unique index on an expression or a part of the rows",
                    cure:
                        "-- make it unique in plain columns, or create the table in PostgreSQL and serve it with --adopt"
                )
            )
        }
        return problems
    }
}

/// The CHECK constraints of a `CREATE TABLE`, which SQLite does not list.
enum CheckText {
    private static let prefix = "tidemark_check_"

    /// The name of the constraint for the n-th expression.
    static func constraint(_ number: Int) -> String { "\(prefix)\(number)" }

    /// What SQLite calls the constraint of a name that ``constraint(_:)`` gave: its expression.
    static func label(of constraint: String, in sql: String) -> String? {
        guard constraint.hasPrefix(prefix), let number = Int(constraint.dropFirst(prefix.count))
        else { return nil }
        let expressions = expressions(in: sql)
        return expressions.indices.contains(number) ? expressions[number] : nil
    }

    /// The expressions, without the parentheses around them.
    static func expressions(in sql: String) -> [String] {
        var found: [String] = []
        let bytes = Array(sql.utf8)
        var index = 0
        while index < bytes.count {
            if let end = quoted(bytes, at: index) {
                index = end
            } else if isCheck(bytes, at: index) {
                let start = bytes[index...].firstIndex(of: UInt8(ascii: "(")) ?? bytes.count
                let end = group(bytes, at: start)
                found.append(String(decoding: bytes[(start + 1)..<(end - 1)], as: UTF8.self))
                index = end
            } else {
                index += 1
            }
        }
        return found
    }

    /// The end of a quoted name, a string or a comment that begins here.
    private static func quoted(_ bytes: [UInt8], at start: Int) -> Int? {
        let ends: [UInt8: UInt8] = [
            UInt8(ascii: "'"): UInt8(ascii: "'"), UInt8(ascii: "\""): UInt8(ascii: "\""),
            UInt8(ascii: "`"): UInt8(ascii: "`"), UInt8(ascii: "["): UInt8(ascii: "]"),
        ]
        if bytes[start...].starts(with: "--".utf8) {
            return bytes[start...].firstIndex(of: UInt8(ascii: "\n")) ?? bytes.count
        }
        guard let end = ends[bytes[start]] else { return nil }
        return bytes[(start + 1)...].firstIndex(of: end).map { $0 + 1 } ?? bytes.count
    }

    private static func isCheck(_ bytes: [UInt8], at index: Int) -> Bool {
        func isWord(_ at: Int) -> Bool {
            guard bytes.indices.contains(at) else { return false }
            let scalar = Unicode.Scalar(bytes[at])
            return scalar.properties.isAlphabetic || scalar == "_" || bytes[at] >= 0x80
        }
        return bytes.count >= index + 5 && !isWord(index - 1) && !isWord(index + 5)
            && String(decoding: bytes[index..<(index + 5)], as: UTF8.self).uppercased() == "CHECK"
    }

    /// The end of a parenthesised group.
    private static func group(_ bytes: [UInt8], at start: Int) -> Int {
        var (depth, index) = (0, start)
        while index < bytes.count {
            if let end = quoted(bytes, at: index) {
                index = end
                continue
            }
            if bytes[index] == UInt8(ascii: "(") { depth += 1 }
            if bytes[index] == UInt8(ascii: ")") { depth -= 1 }
            index += 1
            if depth == 0 { return index }
        }
        return index
    }
}
