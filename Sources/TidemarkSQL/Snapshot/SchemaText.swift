import Foundation
package import TidemarkCore

/// The JSON form of a schema: the CREATE statements as SQLite stores them, policies and history.
package enum SchemaText {
    fileprivate struct Table: Codable {
        let name: String
        let sql: String
        let indexes: [String]
        let policy: String
        let columnPolicies: [String: String]?
        /// The key of a table without a primary key: columns, or the rowid.
        let key: [String]?
        /// The lowest permanent id, if it is negative.
        let lowestID: Int64?
        /// The columns of references in which 0 stands for no record.
        let zeroReferences: [String]?
        /// The backfill values of added columns, canonical JSON, by column.
        let added: [String: String]?
        /// The current names of columns, by former name.
        let renamed: [String: String]?
        /// The dropped columns; for a dropped table empty, like `sql`.
        let dropped: [String]?
        /// The other parts of the file, in the last entry, whose empty name earlier versions read as a dropped table.
        var file: FileObjects?
        /// Whether the table was dropped; old revisions still name it.
        var isDropped: Bool { sql.isEmpty && dropped == [] }
    }

    package static func encode(_ schema: SyncSchema) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let tables = schema.tables.map {
            Table(
                name: $0.name, sql: $0.sql, indexes: $0.indexSQL, policy: schema.policy(of: $0.name).rawValue,
                columnPolicies: columnPolicies(of: $0.name, in: schema), key: $0.traits?.key,
                lowestID: $0.traits?.lowestID, zeroReferences: $0.traits?.zeroReferences,
                added: schema.history.fills[$0.name], renamed: schema.history.renames[$0.name],
                dropped: schema.history.droppedColumns[$0.name])
        }
        let droppedTables = schema.history.droppedTables.map { Table(dropped: $0) }
        let rest = Table(dropped: "", file: schema.objects)
        let all = tables + droppedTables + (schema.objects.isEmpty ? [] : [rest])
        return String(decoding: try encoder.encode(all), as: UTF8.self)
    }

    private static func columnPolicies(of table: String, in schema: SyncSchema) -> [String: String]? {
        let policies = schema.columnPolicies(of: table)
        return policies.isEmpty ? nil : policies.mapValues(\.rawValue)
    }

    /// Returns the hash of the encoded schema, by which a device and the server compare schemas.
    package static func hash(_ schema: SyncSchema) throws -> String { ContentHash.of(try encode(schema)) }

    /// Decodes a schema from an untrusted source.
    ///
    /// The statements of tables and indexes run in a ``ScratchSchema``, whose tables are then introspected.
    /// So the source can neither attach a file nor hide a second statement. The other objects stay text
    /// until a device tries them out.
    ///
    /// - Throws: ``TidemarkCore/UnsyncableSchema`` or ``TidemarkCore/TidemarkError``.
    package static func decode(_ json: String) throws -> SyncSchema {
        let tables: [Table]
        do { tables = try JSONDecoder().decode([Table].self, from: Data(json.utf8)) } catch {
            throw TidemarkError(
                .invalidResponse, "The schema that the server sent cannot be read.",
                fix: "Check the URL and the server's version.")
        }
        let policies = tables.reduce(into: [String: ConflictPolicy]()) {
            $0[$1.name] = $1.policy == "reject" ? nil : ConflictPolicy(rawValue: $1.policy)
            for (column, policy) in $1.columnPolicies ?? [:] {
                $0["\($1.name).\(column)"] = ConflictPolicy(rawValue: policy)
            }
        }
        var history = SchemaHistory(
            fills: tables.reduce(into: [:]) { $0[$1.name] = $1.added },
            renames: tables.reduce(into: [:]) { $0[$1.name] = $1.renamed })
        history.droppedColumns = tables.reduce(into: [:]) { $0[$1.name] = $1.dropped }
        history.droppedTables = tables.filter { $0.isDropped && !$0.name.isEmpty }.map(\.name)
        let traits = tables.reduce(into: [String: TableTraits]()) {
            $0[$1.name] = TableTraits(
                key: $1.key, lowestID: TableTraits.lowestID(ofRows: $1.lowestID), zeroReferences: $1.zeroReferences)
        }
        let scratch = try ScratchSchema()
        for table in tables where !table.isDropped {
            try create(FileObjects.Object(kind: .table, name: table.name, sql: table.sql), in: scratch)
            for sql in table.indexes { try create(FileObjects.Object(kind: .index, name: "", sql: sql), in: scratch) }
        }
        let objects = tables.last?.file ?? FileObjects()
        return try scratch.read {
            try SchemaIntrospection($0, traits: traits)
                .makeSchema(policies: policies, history: history, objects: objects)
        }
    }

    /// Decodes the parts of the zone's file other than its synced tables.
    package static func objects(in json: String?) throws -> FileObjects {
        guard let json else { return FileObjects() }
        return try JSONDecoder().decode([Table].self, from: Data(json.utf8)).last?.file ?? FileObjects()
    }

    private static func create(_ object: FileObjects.Object, in scratch: ScratchSchema) throws {
        guard let problem = scratch.create(object) else { return }
        throw TidemarkError(
            .invalidResponse,
            "The schema that the server sent has a statement that creates no \(object.kind.rawValue): \(problem).",
            fix: "Check the URL; a Tidemark server sends CREATE TABLE and CREATE INDEX only.")
    }
}

extension SchemaText.Table {
    /// Makes an entry without a table: of a dropped one, or of the other parts of the file.
    fileprivate init(dropped name: String, file: FileObjects? = nil) {
        self.init(
            name: name, sql: "", indexes: [], policy: "", columnPolicies: nil, key: nil, lowestID: nil,
            zeroReferences: nil, added: nil, renamed: nil, dropped: [], file: file)
    }
}
