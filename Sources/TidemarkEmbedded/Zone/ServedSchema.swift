import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// The schema that a zone serves, its JSON, and the file's version to detect changes.
struct ServedSchema: Hashable, Sendable {
    let schema: SyncSchema
    let text: String
    let hash: String
    private(set) var version: Version

    init(_ schema: SyncSchema, in db: Database) throws {
        self.schema = schema
        text = try SchemaText.encode(schema)
        hash = ContentHash.of(text)
        version = try Version(of: db, migrationTables: schema.objects.migrationTables)
    }

    /// The same schema in another file.
    func again(in db: Database) throws -> Self {
        var served = self
        served.version = try Version(of: db, migrationTables: schema.objects.migrationTables)
        return served
    }

    /// What changes in a file with its schema, and is quick to read.
    struct Version: Hashable {
        private let schema: Int64?
        private let numbers: [Int64?]
        private let migrationTables: [FileObjects.MigrationTable]

        init(of db: Database, migrationTables: [FileObjects.MigrationTable]) throws {
            schema = try Self.number("schema_version", of: db)
            numbers = try Self.numbers(of: db)
            self.migrationTables = migrationTables
        }

        /// Whether a file has the same tables, which suffices to read rows; the next commit follows the rest.
        func hasTables(of db: Database) throws -> Bool { try Self.number("schema_version", of: db) == schema }

        func isCurrent(in db: Database) throws -> Bool {
            try hasTables(of: db) && Self.numbers(of: db) == numbers
                && migrationTables.allSatisfy { try MigrationTables.rows(of: $0.name, in: db) == $0.rows }
        }

        private static func numbers(of db: Database) throws -> [Int64?] {
            try ["user_version", "application_id"].map { try number($0, of: db) }
        }

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
            Self(adoption: ZoneAdoption(again: adoption), served: try served.again(in: db))
        }
    }

    /// Returns a function that adopts a file as a zone; `newEpoch` is a random id, `excluding` tables to leave alone.
    static func adopting(_ zone: String, newEpoch: UUID, excluding: Set<String>) -> Adopt {
        { db, opening in
            if opening.isFirst {
                try SchemaIntrospection.requireKnown(excluding.union(opening.objects.migrationTables), in: db)
            }
            let adoption = try ZoneAdoption(
                db, name: zone, epoch: newEpoch.uuidString.lowercased(), isRestored: opening.isRestored,
                excluding: excluding, keys: opening.keys, policies: opening.policies, renames: opening.renames,
                objects: opening.objects)
            return Adopted(adoption: adoption, served: try ServedSchema(adoption.schema, in: db))
        }
    }
}
