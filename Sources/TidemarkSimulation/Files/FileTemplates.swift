import Foundation
import GRDB
import Tidemark
import TidemarkCore
import TidemarkSQL
import TidemarkEmbedded

/// A zone and a device that has joined it, made once and copied into every world.
///
/// Making tables and triggers takes longer than a run. For use by one thread at a time.
package final class FileTemplates {
    /// A zone's file and a device's at the beginning of a run.
    struct Pair {
        let zone: FileCopy
        let device: FileCopy
        let schema: SyncSchema
    }

    /// The storage of worlds that bring none of their own.
    let worlds = MemoryStorage()
    private let storage = MemoryStorage()
    private var pairs: [[String: ConflictPolicy]: Pair] = [:]

    /// Makes an empty collection.
    package init() {}

    /// The files for the tables of a version with policies of tables and columns.
    func pair(_ policies: [String: ConflictPolicy], version: Int) throws -> Pair {
        if let pair = pairs[policies] { return pair }
        let sql =
            switch version {
            case Shapes.version: Shapes.sql + Shapes.rows
            case Stocks.version: Stocks.sql + Stocks.rows
            case Fates.version: Fates.sql + Fates.rows
            default: ZoneSchema.sql + ZoneSchema.rows
            }
        let number = pairs.count
        let zone = try storage.open("zone-\(number)")
        try zone.writeWithoutTransaction { try $0.execute(sql: sql) }
        let schema = try Self.adopt(zone, policies)
        let device = try storage.open("device-\(number)")
        try Self.join(
            device, zone: storage.path(of: "zone-\(number)"), schema: schema, through: "snapshot-\(number)",
            in: storage, VirtualEnvironment(seed: 1))
        let pair = Pair(zone: try FileCopy(zone), device: try FileCopy(device), schema: schema)
        pairs[policies] = pair
        return pair
    }

    private static func adopt(_ zone: DatabaseQueue, _ policies: [String: ConflictPolicy]) throws -> SyncSchema {
        try zone.writeWithoutTransaction { db in
            var schema: SyncSchema?
            try db.inTransaction(.immediate) {
                schema = try ZoneAdoption(
                    db, name: "main", epoch: "00000000-0000-4000-8000-000000000000", excluding: [], policies: policies
                ).schema
                return .commit
            }
            return schema ?? SyncSchema(tables: [])
        }
    }

    /// Makes a device's file from a snapshot of a zone, the way that `tidemark device join` does.
    static func join(
        _ device: DatabaseQueue, zone: String, schema: SyncSchema, through snapshot: String,
        in storage: some SimulatedStorage, _ environment: VirtualEnvironment,
        inspect: (Database) throws -> Void = { _ in }
    ) throws {
        let keeper = try storage.open(snapshot)
        _ = try SnapshotBuilder(zonePath: zone, schema: schema).copy(to: storage.path(of: snapshot))
        try keeper.writeWithoutTransaction { try inspect($0) }
        try device.writeWithoutTransaction { db in
            _ = try TakeSnapshot(
                db: db, snapshotPath: storage.path(of: snapshot), now: environment.now, newID: environment.newID
            ).join(device: environment.newID(), server: "simulation", zone: "main")
        }
        try keeper.close()
        try storage.remove(snapshot)
    }
}
