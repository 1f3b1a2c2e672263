import GRDB
import TidemarkCore
import TidemarkSQL

/// Creates the tables and columns that the database lacks, by a schema in SQLite's dialect.
///
/// Other differences, such as a removed column or another type, are refused before any change. The
/// error lists all of them, with both sides.
struct GrowTables {
    let pg: PostgresConnection
    /// An SQLite connection with the tables.
    let db: Database
    let wanted: SyncSchema
    let record: ServedRecord
    /// The generated columns of the database, by table, which a schema does not declare.
    let generated: [String: Set<String>]

    /// Creates them in the caller's transaction, and returns the new ones, such as `table medal`.
    func run() throws -> [String] {
        try refuseDifferences()
        let new = wanted.tables.filter { record.schema.byName[$0.name] == nil }
        let grown = wanted.tables.filter { !added($0).isEmpty }
        guard !new.isEmpty || !grown.isEmpty else { return [] }
        try pg.refuseTaken(new, in: record.namespace, fix: "Give the new table another name in the schema.")
        // Waits for running commits, and keeps new ones out while tables change.
        try pg.query("SELECT zone FROM tidemark.zone ORDER BY zone FOR UPDATE")
        let newTables = try creation(new).tables()
        for statement in try creation(new).statements(newTables) { try pg.execute(statement) }
        for table in grown { try grow(table) }
        try ImportRows(pg: pg, db: db, tables: newTables).run()
        return new.map { "table \($0.name)" }
            + grown.flatMap { table in added(table).map { "column \(table.name).\($0)" } }
    }

    private func creation(_ tables: [SyncedTable]) -> CreateTables {
        CreateTables(
            db: db, schema: SyncSchema(tables: tables), namespace: record.namespace, zoneColumn: record.zoneColumn)
    }

    /// The columns that the database lacks, in table order.
    private func added(_ table: SyncedTable) -> [String] {
        guard let servedTable = record.schema.byName[table.name] else { return [] }
        let names = Set(servedTable.columns.map(\.name))
        return table.columns.map(\.name).filter { !names.contains($0) }
    }

    private func grow(_ table: SyncedTable) throws {
        let creation = creation([table])
        let checks = StatementTokens(record.schema.byName[table.name]?.sql ?? "").checks.count
        for stored in try creation.tables() {
            let statements = try creation.additions(of: added(table), to: stored, checks: checks)
            for statement in statements { try pg.execute(statement) }
        }
    }

    private func refuseDifferences() throws {
        let problems = record.schema.tables.flatMap { servedTable in
            wanted.byName[servedTable.name].map { differences(servedTable, $0) } ?? [
                "the schema lacks the table \(servedTable.name) of the database"
            ]
        }
        guard !problems.isEmpty else { return }
        throw TidemarkError(
            .schemaMismatch,
            "The schema does not fit the database: \(problems.joined(separator: "; ")).",
            fix: """
                A schema adds tables and columns only. Make other changes in the database, and Tidemark follows them. \
                Leave --schema out to serve the existing tables.
                """)
    }

    private func differences(_ servedTable: SyncedTable, _ declared: SyncedTable) -> [String] {
        let generated = generated[servedTable.name, default: []]
        guard servedTable.key == declared.key, servedTable.keyKind == declared.keyKind else {
            return [
                "the key of \(servedTable.name) is \(words(servedTable)) in the database and \(words(declared)) in the schema"
            ]
        }
        let columns = Dictionary(uniqueKeysWithValues: declared.columns.map { ($0.name, $0) })
        let old = servedTable.columns.filter { !generated.contains($0.name) }.flatMap { column -> [String] in
            let name = "\(servedTable.name).\(column.name)"
            guard let other = columns[column.name] else {
                return ["the schema lacks the column \(name) of the database"]
            }
            if column.affinity != other.affinity {
                return ["\(name) is \(column.type) in the database and \(other.type) in the schema"]
            }
            guard !servedTable.key.contains(column.name), column.isNotNull != other.isNotNull else { return [] }
            let sides = column.isNotNull ? ["NOT NULL", "nullable"] : ["nullable", "NOT NULL"]
            return ["\(name) is \(sides[0]) in the database and \(sides[1]) in the schema"]
        }
        let new = declared.columns.filter { $0.isNotNull && $0.defaultSQL == nil && added(declared).contains($0.name) }
            .map {
                "\(servedTable.name).\($0.name) is NOT NULL without a default in the schema, and the rows of the database have no value"
            }
        return old + new + constraints(servedTable, declared)
    }

    private func constraints(_ servedTable: SyncedTable, _ declared: SyncedTable) -> [String] {
        let names = Set(servedTable.columns.map(\.name))
        let uniques = Set(declared.uniques.filter { names.isSuperset(of: $0) })
        let references = Set(declared.references.filter { names.isSuperset(of: $0.columns) })
        var problems: [String] = []
        let generated = generated[servedTable.name, default: []]
        if uniques != Set(servedTable.uniques.filter { generated.isDisjoint(with: $0) }) {
            problems.append("\(servedTable.name) has other unique columns in the database")
        }
        if references != Set(servedTable.references) {
            problems.append("\(servedTable.name) has other references in the database")
        }
        let checks = StatementTokens(servedTable.sql).checks
        if !added(declared).isEmpty, !StatementTokens(declared.sql).checks.starts(with: checks) {
            problems.append("\(servedTable.name) has other CHECK constraints in the database, or new ones between them")
        }
        return problems
    }

    private func words(_ table: SyncedTable) -> String {
        "\(table.keyKind == .integer ? "INTEGER " : "")(\(table.key.joined(separator: ", ")))"
    }
}
