import GRDB

/// Runs an app's migration, at its next start or during a sync.
struct MigrateDevice: Action {
    func weight(_ decisions: inout Decisions, profile: Profile) -> Int {
        profile.migrates ? decisions.pick([1, 2, 4]) : 0
    }

    func perform(in world: World) throws -> Bool {
        guard let device = world.runningDevice(), device.version < Migrations.steps.count else { return false }
        try world.migrate(device)
        if world.decisions.chance(50) { try world.crash(device) }
        return true
    }
}

/// Alters the server's tables.
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
        let step = Migrations.steps[device.version]
        // The app declares a rename when it makes the engine, so it migrates first.
        let restarts = !step.renames.isEmpty
        if restarts {
            try device.crash(opensAnew: false) { _ in 0 }
            recorder.crashed(device)
        }
        try device.writeOutside { try $0.execute(sql: step.sql + step.backfill.app) }
        device.version += 1
        try recorder.altered(device)
        guard restarts else { return }
        if device.isUp { try device.begin() } else { try device.prepare() }
        try recorder.stepped(device, "begin")
    }

    /// Brings the server's tables to the next version.
    func migrateServer() throws {
        counters[.migrations] += 1
        note("server migrates to version \(server.version + 1)")
        try server.migrate(plan.policies)
        try recorder.altered(server)
    }

    /// Migrates every side that is behind.
    func migrateAll() throws {
        guard options.profile.migrates else { return }
        while server.version < Migrations.steps.count { try migrateServer() }
        for device in devices { while device.version < Migrations.steps.count { try migrate(device) } }
    }
}
