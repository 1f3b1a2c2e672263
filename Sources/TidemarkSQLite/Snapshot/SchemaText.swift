import Foundation
import GRDB
import GRDBSQLite
package import TidemarkCore

/// A schema as it travels: the statements that make its tables, as SQLite itself keeps them.
package enum SchemaText {
    private struct Table: Codable {
        let name: String
        let sql: String
        let indexes: [String]
        let policy: String
        /// The policies of columns that have one of their own.
        let columnPolicies: [String: String]?
        /// The values that rows got when columns were added, canonical JSON, by column.
        let added: [String: String]?
        /// The names that columns have now, by former name.
        let renamed: [String: String]?
        /// The columns that are gone; empty together with `sql` for a table that is.
        let dropped: [String]?

        /// Whether the table is gone: old revisions name it still.
        var isGone: Bool { sql.isEmpty && dropped == [] }
    }

    /// The virtual machine steps after which a statement is stopped.
    private static let stepsMax: Int32 = 100_000

    /// The schema as JSON.
    package static func encode(_ schema: SyncSchema) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let tables = schema.tables.map {
            Table(
                name: $0.name,
                sql: $0.sql,
                indexes: $0.indexSQL,
                policy: schema.policy(of: $0.name).rawValue,
                columnPolicies: columnPolicies(of: $0.name, in: schema),
                added: schema.history.fills[$0.name],
                renamed: schema.history.renames[$0.name],
                dropped: schema.history.dropped[$0.name]
            )
        }
        let gone = schema.history.droppedTables.map {
            Table(
                name: $0,
                sql: "",
                indexes: [],
                policy: "",
                columnPolicies: nil,
                added: nil,
                renamed: nil,
                dropped: []
            )
        }
        return String(decoding: try encoder.encode(tables + gone), as: UTF8.self)
    }

    private static func columnPolicies(of table: String, in schema: SyncSchema) -> [String: String]? {
        let policies = schema.columnPolicies(of: table)
        return policies.isEmpty ? nil : policies.mapValues(\.rawValue)
    }

    /// The hash by which two sides tell whether they know the same schema: of the text itself.
    package static func hash(_ schema: SyncSchema) throws -> String { ContentHash.of(try encode(schema)) }

    /// Reads a schema that came from elsewhere.
    ///
    /// The statements run in a fresh database in memory, and what they made is introspected. Only
    /// single statements in SQLite's own spelling that make a table or an index are run, so no file
    /// is attached, and no trigger, view or second statement in disguise comes through.
    ///
    /// - Throws: ``TidemarkCore/UnsyncableSchema``, ``TidemarkCore/TidemarkError`` or
    ///   `DatabaseError`.
    package static func decode(_ json: String) throws -> SyncSchema {
        let tables: [Table]
        do { tables = try JSONDecoder().decode([Table].self, from: Data(json.utf8)) } catch {
            throw TidemarkError(
                .invalidResponse,
                "The schema that the server sent cannot be read.",
                fix: "Check the URL and the server's version."
            )
        }
        let policies = tables.reduce(into: [String: ConflictPolicy]()) {
            $0[$1.name] = $1.policy == "reject" ? nil : ConflictPolicy(rawValue: $1.policy)
            for (column, policy) in $1.columnPolicies ?? [:] {
                $0["\($1.name).\(column)"] = ConflictPolicy(rawValue: policy)
            }
        }
        var history = SchemaHistory(
            fills: tables.reduce(into: [:]) { $0[$1.name] = $1.added },
            renames: tables.reduce(into: [:]) { $0[$1.name] = $1.renamed }
        )
        history.dropped = tables.reduce(into: [:]) { $0[$1.name] = $1.dropped }
        history.droppedTables = tables.filter(\.isGone).map(\.name)
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        configuration.prepareDatabase { db in try db.execute(sql: "PRAGMA trusted_schema = OFF") }
        let scratch = try DatabaseQueue(configuration: configuration)
        return try scratch.write { db in
            // A `CREATE TABLE ... AS SELECT` must not keep a device busy for ever.
            sqlite3_progress_handler(db.sqliteConnection, stepsMax, { _ in 1 }, nil)
            for table in tables where !table.isGone {
                try make("CREATE TABLE ", table.sql, in: db)
                for index in table.indexes {
                    let isUnique = index.hasPrefix("CREATE UNIQUE")
                    try make(isUnique ? "CREATE UNIQUE INDEX " : "CREATE INDEX ", index, in: db)
                }
            }
            sqlite3_progress_handler(db.sqliteConnection, 0, nil, nil)
            return try SchemaIntrospection(db).validated(policies: policies, history: history)
        }
    }

    /// Runs one statement, provided that it is one and begins as it should.
    private static func make(_ kind: String, _ statement: String, in db: Database) throws {
        guard statement.hasPrefix(kind) else {
            throw TidemarkError(
                .invalidResponse,
                "The schema that the server sent has a statement that makes no table or index.",
                fix: "Check the URL; a Tidemark server sends CREATE TABLE and CREATE INDEX only."
            )
        }
        // Refuses text with a second statement.
        try db.makeStatement(sql: statement).execute()
    }
}
