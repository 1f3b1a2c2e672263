import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// The schema that a zone serves, its JSON, and the file's version to detect changes.
struct ServedSchema: Hashable, Sendable {
    let schema: SyncSchema
    let text: String
    let hash: String
    let version: Version

    init(_ schema: SyncSchema, in db: Database) throws {
        self.schema = schema
        text = try SchemaText.encode(schema)
        hash = ContentHash.of(text)
        version = try Version(of: db)
    }

    /// Serves the same schema from another file.
    init(_ known: Self, in db: Database) throws {
        schema = known.schema
        text = known.text
        hash = known.hash
        version = try Version(of: db)
    }

    /// What changes in a file with its schema, and is quick to read.
    struct Version: Hashable {
        private let schema: Int64?
        private let numbers: [Int64?]
        private let migrations: [String]

        init(of db: Database) throws {
            schema = try Self.number("schema_version", of: db)
            numbers = try ["user_version", "application_id"].map { try Self.number($0, of: db) }
            migrations = try MigratorTable.migrations(in: db)
        }

        /// Whether a file has the same tables, which suffices to read rows; the next commit follows the rest.
        func hasTables(of db: Database) throws -> Bool { try Self.number("schema_version", of: db) == schema }

        private static func number(_ name: String, of db: Database) throws -> Int64? {
            try Int64.fetchOne(db.cachedStatement(sql: "PRAGMA main.\(name)"))
        }
    }
}

extension ZoneFile {
    struct Adopted: Sendable {
        let adoption: ZoneAdoption
        let served: ServedSchema

        /// Returns the same for another file with the same tables and declarations.
        func again(in db: Database) throws -> Self {
            Self(adoption: ZoneAdoption(again: adoption), served: try ServedSchema(served, in: db))
        }
    }

    /// Returns a function that adopts a file as a zone; `newEpoch` is a random id, `excluding` tables to leave alone.
    static func adopting(_ zone: String, newEpoch: UUID, excluding: Set<String>) -> Adopt {
        { db, opening in
            if opening.isFirst { try SchemaIntrospection.requireKnown(excluding, in: db) }
            let adoption = try ZoneAdoption(
                db, name: zone, epoch: newEpoch.uuidString.lowercased(), isRestored: opening.isRestored,
                excluding: excluding, keys: opening.keys, policies: opening.policies, renames: opening.renames,
                objects: opening.objects)
            return Adopted(adoption: adoption, served: try ServedSchema(adoption.schema, in: db))
        }
    }
}
