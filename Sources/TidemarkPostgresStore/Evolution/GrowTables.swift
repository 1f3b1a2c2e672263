import GRDB
import TidemarkCore
import TidemarkSQLite

/// Makes the tables and columns that a schema in SQLite's words has more than the database.
///
/// What a statement cannot add to tables that are there, a column that is gone or has another type
/// above all, is refused, all of it at once and both sides named, before anything is made.
struct GrowTables {
    let pg: PostgresConnection
    /// An SQLite connection that has the tables.
    let db: Database
    let wanted: SyncSchema
    let record: ServedRecord

    /// Makes them, inside a transaction of the caller's.
    ///
    /// - Returns: What was made, in words.
    /// - Throws: `schemaMismatch`, or ``TidemarkCore/UnsyncableSchema``.
    func run() throws -> [String] {
        try refuseDifferences()
        let new = wanted.tables.filter { record.schema.byName[$0.name] == nil }
        let grown = wanted.tables.filter { !added($0).isEmpty }
        guard !new.isEmpty || !grown.isEmpty else { return [] }
        try refuseTaken(new)
        // No request is in the middle of something while tables change.
        try pg.query("SELECT zone FROM tidemark.zone ORDER BY zone FOR UPDATE")
        let made = try creation(new).tables()
        for statement in try creation(new).statements(made) { try pg.execute(statement) }
        for table in grown { try grow(table) }
        try ImportRows(pg: pg, db: db, tables: made).run()
        return new.map { "table \($0.name)" }
            + grown.flatMap { table in added(table).map { "column \(table.name).\($0)" } }
    }

    private func creation(_ tables: [SyncedTable]) -> CreateTables {
        CreateTables(
            db: db,
            schema: SyncSchema(tables: tables),
            namespace: record.namespace,
            zoneColumn: record.zoneColumn
        )
    }

    /// The columns that the database does not have, in table order.
    private func added(_ table: SyncedTable) -> [String] {
        guard let known = record.schema.byName[table.name] else { return [] }
        let names = Set(known.columns.map(\.name))
        return table.columns.map(\.name).filter { !names.contains($0) }
    }

    private func grow(_ table: SyncedTable) throws {
        let creation = creation([table])
        let checks = CheckText.expressions(in: record.schema.byName[table.name]?.sql ?? "").count
        for stored in try creation.tables() {
            let statements = try creation.additions(of: added(table), to: stored, checks: checks)
            for statement in statements { try pg.execute(statement) }
        }
    }

    private func refuseTaken(_ tables: [SyncedTable]) throws {
        for table in tables {
            let name = "\(SQLText.name(record.namespace)).\(SQLText.name(table.name))"
            guard try pg.text("SELECT to_regclass($1)", [name]) != nil else { continue }
            throw TidemarkError(
                .unusableFile,
                "The database has a table \(record.namespace).\(table.name) already, which is not synced.",
                fix: "Give the new table another name in the schema.",
                place: .init(table: table.name)
            )
        }
    }

    // MARK: What cannot be followed

    private func refuseDifferences() throws {
        let problems = record.schema.tables.flatMap { known in
            wanted.byName[known.name].map { differences(known, $0) } ?? [
                "the database has the table \(known.name), and the schema has not"
            ]
        }
        guard !problems.isEmpty else { return }
        throw TidemarkError(
            .schemaMismatch,
            "The schema given does not fit the database: \(problems.joined(separator: "; ")).",
            fix: """
                A schema adds tables and columns; alter anything else in the database, where it is noticed. Leave \
                --schema out to serve what is there.
                """
        )
    }

    private func differences(_ known: SyncedTable, _ given: SyncedTable) -> [String] {
        guard known.key == given.key, known.keyKind == given.keyKind else {
            return ["the key of \(known.name) is \(words(known)) in the database and \(words(given)) in the schema"]
        }
        let columns = Dictionary(uniqueKeysWithValues: given.columns.map { ($0.name, $0) })
        let old = known.columns.flatMap { column -> [String] in
            let name = "\(known.name).\(column.name)"
            guard let mine = columns[column.name] else {
                return ["the database has the column \(name), and the schema has not"]
            }
            if column.affinity != mine.affinity {
                return ["\(name) is \(column.type) in the database and \(mine.type) in the schema"]
            }
            guard !known.key.contains(column.name), column.isNotNull != mine.isNotNull else { return [] }
            let there = column.isNotNull ? "NOT NULL" : "not NOT NULL"
            return ["\(name) is \(there) in the database, and the other way round in the schema"]
        }
        let new = given.columns.filter { $0.isNotNull && $0.defaultSQL == nil && added(given).contains($0.name) }.map {
            "\(known.name).\($0.name) is NOT NULL without a default in the schema, and the rows of the database have no value"
        }
        return old + new + constraints(known, given)
    }

    private func constraints(_ known: SyncedTable, _ given: SyncedTable) -> [String] {
        let names = Set(known.columns.map(\.name))
        let uniques = Set(given.uniques.filter { names.isSuperset(of: $0) })
        let references = Set(given.references.filter { names.isSuperset(of: $0.columns) })
        var problems: [String] = []
        if uniques != Set(known.uniques) { problems.append("\(known.name) has other unique columns in the database") }
        if references != Set(known.references) { problems.append("\(known.name) has other references in the database") }
        let checks = CheckText.expressions(in: known.sql)
        if !added(given).isEmpty, !CheckText.expressions(in: given.sql).starts(with: checks) {
            problems.append("\(known.name) has other CHECK constraints in the database, or new ones between them")
        }
        return problems
    }

    private func words(_ table: SyncedTable) -> String {
        "\(table.keyKind == .integer ? "INTEGER " : "")(\(table.key.joined(separator: ", ")))"
    }
}
