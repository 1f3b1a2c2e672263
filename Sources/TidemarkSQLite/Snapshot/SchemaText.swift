import Foundation
import GRDB
package import TidemarkCore

/// A schema as it travels: the statements that make its tables, as SQLite itself keeps them.
package enum SchemaText {
    private struct Table: Codable {
        let name: String
        let sql: String
        let indexes: [String]
        let policy: String
    }

    /// The schema as JSON.
    package static func encode(_ schema: SyncSchema) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let tables = schema.tables.map {
            Table(
                name: $0.name, sql: $0.sql, indexes: $0.indexSQL,
                policy: schema.policy(of: $0.name).rawValue)
        }
        return String(decoding: try encoder.encode(tables), as: UTF8.self)
    }

    /// Reads a schema that came from elsewhere.
    ///
    /// The statements run in a fresh database in memory that can attach no file, and what they made is
    /// introspected: only tables and indexes are taken over, as the text that SQLite kept of them. A
    /// trigger, a view or a second statement in disguise does not come through.
    ///
    /// - Throws: ``TidemarkCore/UnsyncableSchema``, ``TidemarkCore/TidemarkError`` or `DatabaseError`.
    package static func decode(_ json: String) throws -> SyncSchema {
        let tables: [Table]
        do {
            tables = try JSONDecoder().decode([Table].self, from: Data(json.utf8))
        } catch {
            throw TidemarkError(
                .invalidResponse, "The schema that the server sent cannot be read.",
                fix: "Check the URL and the server's version.")
        }
        let policies = tables.reduce(into: [String: ConflictPolicy]()) {
            $0[$1.name] = ConflictPolicy(rawValue: $1.policy)
        }
        return try parse(tables.flatMap { [$0.sql] + $0.indexes }, policies: policies)
    }

    /// Reads a schema from SQL, for instance a file with `CREATE TABLE` statements.
    package static func parse(
        _ statements: [String], policies: [String: ConflictPolicy] = [:]
    ) throws -> SyncSchema {
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        configuration.prepareDatabase { db in try db.execute(sql: "PRAGMA trusted_schema = OFF") }
        let scratch = try DatabaseQueue(configuration: configuration)
        return try scratch.write { db in
            for statement in statements {
                guard !statement.uppercased().contains("ATTACH") else {
                    throw TidemarkError(
                        .invalidResponse, "A schema may not attach files.",
                        fix: "Send CREATE TABLE and CREATE INDEX statements only.")
                }
                try db.execute(sql: statement)
            }
            return try SchemaIntrospection(db).validated(policies: policies)
        }
    }
}
