import GRDB
import Testing
import TidemarkCore

@testable import TidemarkSQL

/// Tables in memory, in which change sets are read and written.
struct TableBench {
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

    /// Reads a JSON array of change sets and returns its records, a line each.
    func read(_ changeSets: String) throws -> [String] { try read(Array(changeSets.utf8)) }

    /// Reads a body and returns its records, a line each.
    func read(_ body: [UInt8]) throws -> [String] {
        try body.withUnsafeBufferPointer { bytes in
            var reader = try JSONReader(bytes)
            var changes = ChangeSetReader(schema.wireNames)
            let sets = try changes.changeSets(&reader)
            try reader.finish()
            return try sets.flatMap { set in
                try set.records.map { record in
                    let values = try record.values.map { place in
                        let column = set.column(at: place, of: record).name
                        return " \(column)=\(try reader.value(of: set.values[place].cell))"
                    }
                    let base = record.base.map { " since \($0)" } ?? ""
                    let table = schema.wireNames.tables[record.table].name
                    return "\(set.index) \(record.operation) \(table) \(record.key)\(base)\(values.sorted().joined())"
                }
            }
        }
    }

    /// The error of a refused change set.
    func refusal(_ changeSets: String, sourceLocation: SourceLocation = #_sourceLocation) throws -> TidemarkError {
        let error = #expect(throws: TidemarkError.self, sourceLocation: sourceLocation) { try read(changeSets) }
        return try #require(error, sourceLocation: sourceLocation)
    }

    /// Applies a change set in one transaction with foreign keys deferred, as the engine does.
    func apply(_ changeSet: String, by writer: Writer = .server) throws {
        try queue.write { db in
            try db.execute(sql: "PRAGMA defer_foreign_keys = ON")
            let bytes = Array("[\(changeSet)]".utf8)
            _ = try write(bytes, by: writer, in: db)
        }
    }

    /// Writes an array of change sets joined to one, and returns the number of updates without a record.
    func write(_ body: [UInt8], by writer: Writer, in db: Database) throws -> Int {
        try EngineConnection.prepare(db, schema: schema)
        return try body.withUnsafeBufferPointer { bytes in
            var reader = try JSONReader(bytes)
            var changes = ChangeSetReader(schema.wireNames)
            let changeSet = try PendingChangeSet.joining(
                try changes.changeSets(&reader), reader, names: schema.wireNames)
            return try ChangeWriter(db, schema: schema, isDevice: writer == .device).write(changeSet)
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
}
