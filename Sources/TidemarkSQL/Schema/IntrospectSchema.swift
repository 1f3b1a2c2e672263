package import GRDB
package import TidemarkCore

/// The tables of a SQLite file that can be synced, as SQLite's pragmas describe them: there is no SQL parser.
package struct SchemaIntrospection {
    package let tables: [SyncedTable]
    /// The names of virtual tables, their shadow tables and tables of a platform, which stay local to the file.
    package let skippedTables: [String]
    /// The names of the file's objects, in lower case; none if it was made from known tables.
    let objectNames: Set<String>
    /// Tables that a platform writes into each file for itself: Android keeps the language of the phone there.
    ///
    /// Some frameworks lock their migrations by such a table.
    private static let platformTables: Set<String> = ["android_metadata", "__efmigrationslock", "knex_migrations_lock"]

    /// Whether a table belongs to a framework or a platform, by its name.
    package static func isOthers(_ table: String) -> Bool {
        MigrationTables.isKnown(table) || platformTables.contains(table.lowercased())
    }

    init(tables: [SyncedTable]) {
        self.tables = tables
        skippedTables = []
        objectNames = []
    }

    /// Reads the main database's schema; `excluding` stays local; without `traits`, the file's bookkeeping has them.
    package init(_ db: Database, excluding: Set<String> = [], traits: [String: TableTraits]? = nil) throws {
        let traits = try traits ?? TraitTable.read(in: db)
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT name, sql, sql LIKE 'CREATE VIRTUAL %' AS virtual
                FROM main.sqlite_master
                WHERE type = 'table' AND name NOT LIKE 'sqlite~_%' ESCAPE '~'
                    AND name NOT LIKE 'tidemark~_%' ESCAPE '~'
                ORDER BY rowid
                """)
        var tables: [SyncedTable] = []
        var skippedTables: [String] = []
        let moduleTables = try Self.moduleTables(in: db)
        let catalog = try FileCatalog(db)
        for row in rows {
            let name: String = try row.value("name")
            if try row.value("virtual") || moduleTables.contains(name) || Self.isOthers(name) {
                skippedTables.append(name)
            } else if !excluding.contains(name) {
                let table = try Self.table(
                    name, sql: row.value("sql"), traits: traits[name] ?? TableTraits(), catalog: catalog, in: db)
                tables.append(table)
            }
        }
        self.tables = tables
        self.skippedTables = skippedTables
        objectNames = try Self.namesInUse(db)
    }

    /// The names of all tables, indexes, views and triggers of a file, in lower case.
    static func namesInUse(_ db: Database) throws -> Set<String> {
        Set(try String.fetchAll(db, sql: "SELECT name FROM main.sqlite_master").map { $0.lowercased() })
    }

    /// Returns the tables in which virtual tables keep their content, by name those of modules that SQLite lacks.
    package static func moduleTables(in db: Database) throws -> Set<String> {
        let hasModules = try Bool.fetchOne(
            db,
            sql: "SELECT EXISTS (SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL %')"
        )
        guard hasModules == true else { return [] }
        try compileViews(in: db)
        return try String.fetchSet(
            db,
            sql: """
                SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'shadow'
                UNION
                SELECT part.name
                FROM main.sqlite_master AS owner
                JOIN main.sqlite_master AS part
                    ON part.type = 'table' AND substr(part.name, 1, length(owner.name) + 1) = owner.name || '_'
                WHERE owner.sql LIKE 'CREATE VIRTUAL %'
                    AND NOT EXISTS (
                        SELECT 1 FROM pragma_module_list AS module
                        WHERE owner.sql LIKE '% USING ' || module.name || '%')
                """)
    }

    /// Compiles each view by itself: GRDB takes quadratic time for those that `pragma_table_list` compiles at once.
    private static func compileViews(in db: Database) throws {
        let names = try String.fetchAll(db, sql: "SELECT name FROM main.sqlite_master WHERE type = 'view'")
        for name in names {
            // Compiling it does not run it.
            do { _ = try db.makeStatement(sql: "SELECT * FROM main.\(SQLText.name(name))") } catch is DatabaseError {
                // The program's view names a table or function that is missing here. The pragma passes over it.
                continue
            }
        }
    }

    private static func table(_ name: String, sql: String, traits: TableTraits, catalog: FileCatalog, in db: Database)
        throws -> SyncedTable
    {
        let info = try Row.fetchAll(db, sql: "SELECT * FROM pragma_table_xinfo(?) ORDER BY cid", arguments: [name])
        let primaryKey: [String] = try info.filter { try $0.value("pk") as Int > 0 }.sorted {
            try ($0.value("pk") as Int) < $1.value("pk")
        }.map { try $0.value("name") }
        var columns = try info.filter { try $0.value("hidden") == 0 }.map {
            SyncedTable.Column(
                name: try $0.value("name"), type: try $0.value("type"), isNotNull: try $0.value("notnull"),
                defaultSQL: try $0.value("dflt_value"))
        }
        let allNames = Set(try info.map { try ($0.value("name") as String).lowercased() })
        let finder = FindKey(db: db, table: name, columns: columns, allNames: allNames)
        let key = try primaryKey.isEmpty ? finder.key(declared: traits.key) : primaryKey
        let isRowid = primaryKey.isEmpty && finder.isRowid(key)
        let keyType = columns.first { [$0.name] == key }?.type.uppercased() ?? ""
        if isRowid { columns.insert(.init(name: key[0], type: "INTEGER", isNotNull: true, defaultSQL: nil), at: 0) }
        let indexes = try Row.fetchAll(
            db,
            sql: """
                SELECT name, "unique", origin, partial FROM pragma_index_list(?)
                WHERE name NOT LIKE 'tidemark~_%' ESCAPE '~' ORDER BY name
                """,
            arguments: [name])
        let uniques = try indexes.filter { try $0.value("unique") && $0.value("origin") != "pk" }.map {
            try indexColumns($0.value("name"), in: db)
        }.filter { !$0.isEmpty && (!primaryKey.isEmpty || Set($0) != Set(key)) }
        let hasKeyIndex = try indexes.contains { try $0.value("origin") == "pk" }
        // A table without rowids has an index of its key, too.
        let isRowidAlias = keyType == "INTEGER" && !hasKeyIndex && !primaryKey.isEmpty
        let references = try references(of: name, catalog, in: db)
        // If the key is also a reference, the server does not assign it: it is the parent's key.
        let isOwnId = isRowid || isRowidAlias && !references.contains { $0.columns == key }
        var traits = traits
        traits.key = primaryKey.isEmpty && !key.isEmpty ? key : nil
        return SyncedTable(
            name: name, columns: columns, key: key,
            keyKind: isOwnId ? .integer : key.count == 1 && hasTextAffinity(keyType) ? .text : .general,
            isAutoincrement: isOwnId && !isRowid && SQLText.hasKeyword("AUTOINCREMENT", in: sql),
            references: references, uniques: uniques, hasComputedUniques: try hasComputedUniques(name, in: db),
            partiallyUnique: try partiallyUnique(columns.map(\.name), of: name, in: db), sql: sql,
            indexSQL: catalog.indexSQL[name] ?? [], traits: traits.isEmpty ? nil : traits)
    }

    private static func partiallyUnique(_ columns: [String], of table: String, in db: Database) throws -> [String]? {
        let parts = try Row.fetchAll(
            db,
            sql: """
                SELECT part.name
                FROM pragma_index_list(?) AS listed, pragma_index_xinfo(listed.name) AS part
                WHERE listed."unique" AND listed.partial AND part.key
                """,
            arguments: [table]
        ).map { try $0.value("name") as String? }
        guard !parts.isEmpty else { return nil }
        let haveOnlyColumns = parts.allSatisfy { $0.map(columns.contains) ?? false }
        let names = haveOnlyColumns ? Set(parts.compactMap { $0 }) : Set(columns)
        return names.sorted()
    }

    private static func hasComputedUniques(_ table: String, in db: Database) throws -> Bool {
        try Bool.fetchOne(
            db,
            sql: """
                SELECT EXISTS (
                    SELECT 1
                    FROM pragma_index_list(?1) AS listed, pragma_index_xinfo(listed.name) AS part
                    WHERE listed."unique" AND part.key
                        AND (part.name IS NULL OR part.name NOT IN (SELECT name FROM pragma_table_info(?1))))
                """,
            arguments: [table]
        ) ?? false
    }

    /// Returns the columns of an index, without expressions.
    private static func indexColumns(_ index: String, in db: Database) throws -> [String] {
        try String.fetchAll(
            db, sql: "SELECT name FROM pragma_index_info(?) WHERE name IS NOT NULL ORDER BY seqno", arguments: [index])
    }

    /// What describes all tables of a file, read once for all of them.
    private struct FileCatalog {
        /// The tables' names as declared, by name in lower case.
        let names: [String: String]
        /// The statements of the program's indexes in creation order, by table.
        let indexSQL: [String: [String]]

        init(_ db: Database) throws {
            let tables = try String.fetchAll(db, sql: "SELECT name FROM main.sqlite_master WHERE type = 'table'")
            names = Dictionary(tables.map { ($0.lowercased(), $0) }, uniquingKeysWith: { first, _ in first })
            let indexes = try Row.fetchAll(
                db,
                sql: """
                    SELECT tbl_name, sql FROM main.sqlite_master
                    WHERE type = 'index' AND sql IS NOT NULL AND name NOT LIKE 'tidemark~_%' ESCAPE '~'
                    ORDER BY rowid
                    """)
            indexSQL = try Dictionary(grouping: indexes) { try $0.value("tbl_name") as String }
                .mapValues { try $0.map { try $0.value("sql") as String } }
        }
    }

    private static func references(of table: String, _ catalog: FileCatalog, in db: Database) throws
        -> [SyncedTable.Reference]
    {
        let rows = try Row.fetchAll(
            db, sql: "SELECT * FROM pragma_foreign_key_list(?) ORDER BY id, seq", arguments: [table])
        return try Dictionary(grouping: rows) { try $0.value("id") as Int }.sorted { $0.key < $1.key }.map {
            let parts = $0.value
            let parent: String = try parts[0].value("table")
            let namedColumns: [String] = try parts.compactMap { try $0.value("to") }
            let keyColumns = try String.fetchAll(
                db, sql: "SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", arguments: [parent])
            return SyncedTable.Reference(
                columns: try parts.map { try $0.value("from") },
                // SQLite compares table names without case; a reference keeps the spelling of CREATE TABLE.
                parent: catalog.names[parent.lowercased()] ?? parent,
                parentColumns: namedColumns.isEmpty ? keyColumns : namedColumns,
                onDelete: try .init(rawValue: parts[0].value("on_delete")) ?? .noAction)
        }
    }

    /// Whether a declared type has TEXT affinity, by SQLite's rules.
    private static func hasTextAffinity(_ type: String) -> Bool {
        !type.contains("INT") && ["CHAR", "CLOB", "TEXT"].contains { type.contains($0) }
    }
}
