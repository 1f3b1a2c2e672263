import GRDB

/// An app's migration runs: when it starts the next time, or while it syncs.
struct MigrateDevice: Action {
    func weight(_ decisions: inout Decisions, profile: Profile) -> Int {
        profile.migrates ? decisions.pick([1, 2, 4]) : 0
    }

    func perform(in world: World) throws -> Bool {
        guard let device = world.runningDevice(), device.version < Migrations.steps.count else {
            return false
        }
        try world.migrate(device)
        if world.decisions.chance(50) { try world.crash(device) }
        return true
    }
}

/// Somebody alters the server's tables.
struct MigrateServer: Action {
    func weight(_ decisions: inout Decisions, profile: Profile) -> Int {
        profile.migrates ? decisions.pick([1, 1, 2]) : 0
    }

    func perform(in world: World) throws -> Bool {
        guard world.server.version < Migrations.steps.count else { return false }
        try world.migrateServer()
        return true
    }
}

extension World {
    /// Brings a device's tables to the next version.
    func migrate(_ device: SimulatedDevice) throws {
        counters[.migrations] += 1
        note("\(device.name) migrates to version \(device.version + 1)")
        try device.writeOutside { try $0.execute(sql: Migrations.steps[device.version].sql) }
        device.version += 1
    }

    /// Brings the server's tables to the next version.
    func migrateServer() throws {
        counters[.migrations] += 1
        note("server migrates to version \(server.version + 1)")
        let names = ZoneSchema.tables.map(\.name)
        try server.migrate(Dictionary(uniqueKeysWithValues: zip(names, plan.policies)))
    }

    /// Whoever is behind catches up.
    func migrateAll() throws {
        guard options.profile.migrates else { return }
        while server.version < Migrations.steps.count { try migrateServer() }
        for device in devices {
            while device.version < Migrations.steps.count { try migrate(device) }
        }
    }

    /// Checks that all files have the same rows in all columns, those that migrations made too.
    func verifyMigrated() throws {
        guard options.profile.migrates else { return }
        let truth = try server.read { try Migrations.rows($0) }
        for device in devices {
            let mine = try device.access { try Migrations.rows($0) }
            let pairs = zip(mine, truth)
            let other = pairs.first { $0.table != $1.table || $0.bytes != $1.bytes }
            if mine.count != truth.count || other != nil {
                let table = other?.0.table ?? "its tables"
                throw Finding("I5", device.name, "\(table): not the server's")
            }
        }
        for table in truth { trace.add(table.bytes) }
    }
}
