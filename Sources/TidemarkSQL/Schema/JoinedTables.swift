package import GRDB
package import TidemarkCore

/// The synced tables of a zone in a new file; a server makes them in memory first, to refuse what devices would refuse.
package struct JoinedTables {
    package enum Use {
        /// A device, whose new records draw ids of their own.
        case device
        /// A copy without bookkeeping, with the server's statements.
        case copy
    }

    private let schema: SyncSchema
    private let db: Database
    package var indexes: [String] { schema.tables.flatMap(\.indexSQL) }

    /// Creates the tables, without indexes: rows arrive faster so.
    package init(creating schema: SyncSchema, for use: Use, in db: Database) throws {
        self.schema = schema
        self.db = db
        ProgramFunctions.addStandIns(schema.objects, to: db)
        for table in schema.tables {
            try db.execute(sql: use == .device ? AutoincrementSQL.rewritten(table, schema.objects) : table.sql)
        }
        if use == .device { try TraitTable.store(schema.tables, in: db) }
    }

    /// Creates the indexes, without which nothing judges the tables, as references may need them; returns the tables.
    package func index() throws -> SyncSchema {
        for index in indexes { try db.execute(sql: index) }
        // The file may have local tables by now.
        let names = Set(schema.tables.map(\.name))
        let traits = schema.tables.reduce(into: [:]) { $0[$1.name] = $1.traits }
        let tables = try SchemaIntrospection(db, traits: traits).tables.filter { names.contains($0.name) }
        return try SchemaIntrospection(tables: tables).makeSchema(policies: schema.policies)
    }

    /// Tries a join of an empty zone; throws ``TidemarkCore/UnsyncableSchema`` with what a device would refuse.
    package static func tryJoin(_ schema: SyncSchema) throws {
        let text = try SchemaText.encode(schema)
        let problems: [SchemaProblem]
        do {
            let sent = try SchemaText.decode(text)
            problems = try DatabaseQueue().writeWithoutTransaction { db in
                let local = try JoinedTables(creating: sent, for: .device, in: db).index()
                try CaptureTables.install(local, guardsNewIds: true, in: db)
                return try local.tables.compactMap { try referenceProblem($0, in: db) }
            }
        } catch let error as TidemarkError { throw refused(error.message, place: error.place) } catch let error
            as DatabaseError where error.resultCode == .SQLITE_ERROR
        { throw refused(error.message ?? "SQLite gives no reason", place: TidemarkError.Place()) }
        guard problems.isEmpty else { throw UnsyncableSchema(problems: problems) }
    }

    private static func refused(_ reason: String, place: TidemarkError.Place) -> TidemarkError {
        TidemarkError(
            .unsyncableSchema, "A device cannot make these tables: \(reason)",
            fix: "Change the statement, or leave its table local with --exclude.", place: place)
    }

    /// Returns why SQLite cannot check the references of a table; nil if it can.
    private static func referenceProblem(_ table: SyncedTable, in db: Database) throws -> SchemaProblem? {
        guard !table.references.isEmpty else { return nil }
        do {
            try db.execute(sql: "PRAGMA foreign_key_check(\(SQLText.name(table.name)))")
            return nil
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
            let message = error.message ?? "SQLite gives no reason"
            let reference = table.references.first { message.hasSuffix("\"\($0.parent)\"") } ?? table.references[0]
            return SchemaProblem(
                table: table.name,
                column: reference.columns.first,
                reason: """
                    refers to columns of \(reference.parent) by which SQLite cannot find a parent (\(message)): they \
                    need a unique index without a condition, in the columns' own collations
                    """,
                cure: try SchemaIntrospection.uniqueIndex(reference, besides: SchemaIntrospection.namesInUse(db)))
        }
    }
}
