import GRDB
import Testing
import TidemarkCore

@testable import TidemarkSQL

/// Tables in memory, on which change sets are staged and applied.
struct StagingBench {
    let queue: DatabaseQueue
    let schema: SyncSchema

    init(_ tables: String, rows: String = "") throws {
        queue = try DatabaseQueue()
        schema = try queue.write { [tables, rows] db in
            try db.execute(sql: tables)
            try db.execute(sql: rows)
            return try SchemaIntrospection(db).makeSchema()
        }
    }

    /// Stages a JSON array of change sets and returns the staged rows, a line a record.
    func stage(_ changeSets: String) throws -> [String] { try stage(Array(changeSets.utf8)) }

    /// Stages a body and returns the staged rows, a line a record.
    func stage(_ body: [UInt8]) throws -> [String] {
        try queue.write { db in
            try stage(body, in: db)
            return try String.fetchAll(
                db,
                sql: """
                    SELECT concat FROM (
                        SELECT s.ord || ' ' || s.operation || ' ' || s.tbl || ' ' || s.key
                            || coalesce(' since ' || s.base, '')
                            || coalesce((SELECT group_concat(' ' || col || '=' || quote(value), '')
                                FROM (SELECT c.* FROM temp.tidemark_staged_cell AS c WHERE c.rec = s.rec ORDER BY col)
                            ), '') AS concat
                        FROM temp.tidemark_staged AS s ORDER BY s.ord, s.tbl, s.operation, s.key
                    )
                    """
            )
        }
    }

    /// The error of a refused change set.
    func refusal(_ changeSets: String, sourceLocation: SourceLocation = #_sourceLocation) throws -> TidemarkError {
        let error = #expect(throws: TidemarkError.self, sourceLocation: sourceLocation) { try stage(changeSets) }
        return try #require(error, sourceLocation: sourceLocation)
    }

    /// Applies a change set in one transaction with foreign keys deferred, as the engine does.
    func apply(_ changeSet: String, by writer: Writer = .server) throws {
        try queue.write { db in
            try db.execute(sql: "PRAGMA defer_foreign_keys = ON")
            let bytes = Array("[\(changeSet)]".utf8)
            switch writer {
            case .device:
                try stage(bytes, in: db)
                try RecordWriter(db, schema: schema).write(ord: 0)
            case .server:
                try EngineConnection.prepare(db, schema: schema)
                try bytes.withUnsafeBufferPointer { bytes in
                    var reader = try JSONReader(bytes)
                    var changes = ChangeSetReader(schema.wireNames)
                    let changeSets = try changes.changeSets(&reader).map { PendingChangeSet($0, reader) }
                    try ChangeWriter(db, schema: schema).write(changeSets, parking: true)
                }
            }
        }
    }

    /// Who writes the change set.
    enum Writer: CaseIterable {
        /// The server, into the file of a zone.
        case server
        /// A device, which takes the server's records as they are.
        case device
    }

    /// The rows of a query, their values as SQL literals.
    func rows(_ sql: String) throws -> [String] {
        try queue.read { db in
            try Row.fetchAll(db, sql: sql).map { row in
                row.databaseValues.map { value -> String in
                    if case .string(let text) = value.storage { return text }
                    return "\(value)"
                }.joined(separator: " ")
            }
        }
    }

    private func stage(_ body: [UInt8], in db: Database) throws {
        try EngineConnection.prepare(db, schema: schema)
        try ChangeSetStaging.stage(body, schema, in: db)
    }
}
