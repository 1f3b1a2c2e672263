import GRDB
import Testing
import TidemarkCore

@testable import TidemarkSQL

/// Tables in memory, into which change sets are written.
struct WriterBench {
    let queue: DatabaseQueue
    let schema: SyncSchema

    init(_ tables: String, rows: String = "", policies: [String: ConflictPolicy] = [:]) throws {
        queue = try DatabaseQueue()
        schema = try queue.write { [tables, rows] db in
            try db.execute(sql: tables)
            try db.execute(sql: rows)
            return SyncSchema(tables: try SchemaIntrospection(db).makeSchema().tables, policies: policies)
        }
    }

    /// Writes a change set in one transaction with references deferred, as a store does.
    func write(_ changeSet: String, parking: Bool = false, edit: (inout PendingChangeSet) -> Void = { _ in }) throws {
        try write(all: ["[\(changeSet)]"], parking: parking, edit: edit)
    }

    /// Writes arrays of change sets, each a text of its own, in one transaction.
    func write(all texts: [String], parking: Bool = false, edit: (inout PendingChangeSet) -> Void = { _ in }) throws {
        let buffers = texts.map { text in
            let buffer = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: text.utf8.count)
            _ = buffer.initialize(fromContentsOf: text.utf8)
            return buffer
        }
        defer { for buffer in buffers { buffer.deallocate() } }
        var changeSets: [PendingChangeSet] = []
        for buffer in buffers {
            var reader = try JSONReader(UnsafeBufferPointer(buffer))
            var changes = ChangeSetReader(schema.wireNames, takesDeltas: true)
            changeSets += try changes.changeSets(&reader).map { PendingChangeSet($0, reader) }
        }
        for index in changeSets.indices { edit(&changeSets[index]) }
        try queue.write { db in
            try EngineConnection.prepare(db, schema: schema)
            try db.execute(sql: "PRAGMA defer_foreign_keys = ON")
            try ChangeWriter(db, schema: schema).write(changeSets, parking: parking)
        }
    }

    /// The values of a query's rows.
    func values(_ sql: String) throws -> [[Value]] {
        try queue.read { db in
            var rows: [[Value]] = []
            try RowValues.read(sql, in: db) { rows.append($0) }
            return rows
        }
    }

    /// The rows of a query, a line a row.
    func rows(_ sql: String) throws -> [String] {
        try values(sql).map { row in row.map(Self.text).joined(separator: " ") }
    }

    private static func text(_ value: Value) -> String {
        if case .text(let text) = value { return text }
        return String(decoding: value.canonicalJSON, as: UTF8.self)
    }
}
