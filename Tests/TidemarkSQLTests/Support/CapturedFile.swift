import Foundation
import GRDB
import Testing
import TidemarkCore

@testable import TidemarkSQL

/// A file whose tables are captured, as on a device.
final class CapturedFile: Sendable {
    let path: String
    let queue: DatabaseQueue
    let schema: SyncSchema
    private let folder: ScratchFolder

    /// Creates the tables, fills them, and then installs capture.
    init(
        _ tables: String, rows: String = "", guardsNewIds: Bool = false,
        configure: @escaping @Sendable (Database) throws -> Void = { _ in }
    ) throws {
        folder = try ScratchFolder()
        path = folder.path("device.sqlite")
        var configuration = Configuration()
        configuration.prepareDatabase(configure)
        queue = try DatabaseQueue(path: path, configuration: configuration)
        schema = try queue.write { db in
            try db.execute(sql: tables)
            try db.execute(sql: rows)
            let schema = try SchemaIntrospection(db).makeSchema()
            if guardsNewIds { try Self.becomeDevice(schema, in: db) }
            try CaptureTables.install(schema, guardsNewIds: guardsNewIds, in: db)
            return schema
        }
    }

    /// The tables that the guard of new ids reads on a device: confirmed records, reserved range.
    private static func becomeDevice(_ schema: SyncSchema, in db: Database) throws {
        try db.execute(sql: "CREATE TABLE tidemark_base (tbl, key, image, PRIMARY KEY (tbl, key))")
        for table in schema.tables where table.isAutoincrement {
            try db.execute(sql: "DELETE FROM sqlite_sequence WHERE name = ?", arguments: [table.name])
            try db.execute(
                sql: "INSERT INTO sqlite_sequence VALUES (?, ?)", arguments: [table.name, TemporaryID.reservedMin - 1])
        }
    }

    /// Runs statements as the app would, in one transaction.
    func write(_ sql: String, _ arguments: StatementArguments = []) throws {
        try queue.write { try $0.execute(sql: sql, arguments: arguments) }
    }

    /// Runs statements with no transaction around them.
    func writeWithoutTransaction(_ sql: String) throws {
        try queue.writeWithoutTransaction { try $0.execute(sql: sql) }
    }

    /// Drops the connection and its state, as a quitting process does.
    func close() throws { try queue.close() }

    /// The captured changes, coalesced and then deleted, a line a record.
    func drain() throws -> [String] { try changes().map(\.line) }

    /// The captured changes, coalesced and then deleted.
    func changes() throws -> [Change] { try Self.changes(in: queue, schema: schema) }

    /// The captured changes that another process reads in the file.
    func drainAfterReopening() throws -> [String] {
        try Self.changes(in: try DatabaseQueue(path: path), schema: schema).map(\.line)
    }

    private static func changes(in queue: DatabaseQueue, schema: SyncSchema) throws -> [Change] {
        try queue.write { db in
            try EngineConnection.prepare(db, schema: schema)
            guard let range = try CapturedEffects.collectPending(schema, in: db) else { return [] }
            let changes = try Change.read(CapturedEffects(db, schema: schema, in: range), schema, in: db)
            try CapturedEffects.deleteAll(of: schema.tables, in: db)
            return changes
        }
    }

    /// The number of changes captured and not yet drained.
    func captureCount() throws -> Int {
        try queue.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM tidemark_capture") ?? -1 }
    }

    /// The first value of a query.
    func value<Value: DatabaseValueConvertible>(_ sql: String) throws -> Value? {
        try queue.read { try Value.fetchOne($0, sql: sql) }
    }
}

/// A coalesced change of one record.
struct Change: Equatable, CustomStringConvertible {
    let table: String
    let key: String
    let operation: String
    let before: String?
    let attributes: String?
    let base: Int64

    /// The changes by table and key.
    static func read(_ effects: CapturedEffects, _ schema: SyncSchema, in db: Database) throws -> [Change] {
        var changes: [Change] = []
        try effects.readForOutbox { effect, before, attributes in
            let base = try Int64.fetchOne(
                db, sql: "SELECT base FROM tidemark_capture WHERE seq = ?", arguments: [effect.number])
            changes.append(
                Change(
                    table: schema.tables[effect.table].name, key: effect.key, operation: effect.operation.rawValue,
                    before: before, attributes: attributes, base: base ?? -1))
        }
        return changes.sorted { one, other in
            (one.table, one.key.utf8.count, one.key) < (other.table, other.key.utf8.count, other.key)
        }
    }

    var line: String { "\(operation) \(table) \(key)\(attributes.map { " " + $0 } ?? "")" }

    var description: String { "\(line) instead of \(before ?? "nothing") since \(base)" }
}
