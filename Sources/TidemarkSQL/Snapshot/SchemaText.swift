import Foundation
import GRDB
import GRDBSQLite
package import TidemarkCore

/// The JSON form of a schema: the CREATE statements as SQLite stores them, policies and history.
package enum SchemaText {
    private struct Table: Codable {
        let name: String
        let sql: String
        let indexes: [String]
        let policy: String
        /// The columns' own policies.
        let columnPolicies: [String: String]?
        /// The backfill values of added columns, canonical JSON, by column.
        let added: [String: String]?
        /// The current names of columns, by former name.
        let renamed: [String: String]?
        /// The dropped columns; for a dropped table empty, like `sql`.
        let dropped: [String]?

        /// Whether the table was dropped; old revisions still name it.
        var isDropped: Bool { sql.isEmpty && dropped == [] }
    }

    /// The virtual machine steps after which SQLite stops a statement.
    private static let stepsMax: Int32 = 100_000

    /// Encodes a schema as JSON.
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
                dropped: schema.history.droppedColumns[$0.name]
            )
        }
        let droppedTables = schema.history.droppedTables.map {
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
        return String(decoding: try encoder.encode(tables + droppedTables), as: UTF8.self)
    }

    private static func columnPolicies(of table: String, in schema: SyncSchema) -> [String: String]? {
        let policies = schema.columnPolicies(of: table)
        return policies.isEmpty ? nil : policies.mapValues(\.rawValue)
    }

    /// Returns the hash of the encoded schema, by which a device and the server compare schemas.
    package static func hash(_ schema: SyncSchema) throws -> String { ContentHash.of(try encode(schema)) }

    /// Decodes a schema from an untrusted source.
    ///
    /// The statements run in a new in-memory database, whose tables are then introspected. Only single
    /// statements that create a table or an index run, in SQLite's own spelling. So the source can
    /// neither attach a file nor create a trigger or view, nor hide a second statement.
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
        history.droppedColumns = tables.reduce(into: [:]) { $0[$1.name] = $1.dropped }
        history.droppedTables = tables.filter(\.isDropped).map(\.name)
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        configuration.prepareDatabase { db in try db.execute(sql: "PRAGMA trusted_schema = OFF") }
        let scratch = try DatabaseQueue(configuration: configuration)
        return try scratch.write { db in
            // This stops an endless `CREATE TABLE ... AS SELECT`.
            sqlite3_progress_handler(db.sqliteConnection, stepsMax, { _ in 1 }, nil)
            for table in tables where !table.isDropped {
                try run(table.sql, startingWith: "CREATE TABLE ", in: db)
                for index in table.indexes {
                    let isUnique = index.hasPrefix("CREATE UNIQUE")
                    try run(index, startingWith: isUnique ? "CREATE UNIQUE INDEX " : "CREATE INDEX ", in: db)
                }
            }
            sqlite3_progress_handler(db.sqliteConnection, 0, nil, nil)
            return try SchemaIntrospection(db).makeSchema(policies: policies, history: history)
        }
    }

    /// Runs one statement, which must have a prefix.
    private static func run(_ statement: String, startingWith prefix: String, in db: Database) throws {
        guard statement.hasPrefix(prefix) else {
            throw TidemarkError(
                .invalidResponse,
                "The schema that the server sent has a statement that creates no table or index.",
                fix: "Check the URL; a Tidemark server sends CREATE TABLE and CREATE INDEX only."
            )
        }
        // GRDB rejects text with a second statement.
        try db.makeStatement(sql: statement).execute()
    }
}
