/// The app begins a sync.
struct SyncDevice: Action {
    func weight(_ decisions: inout Decisions, profile: Profile) -> Int { decisions.pick([6, 6, 2, 12]) }

    func perform(in world: World) throws -> Bool {
        guard let device = world.runningDevice() else { return false }
        return try world.beginSync(device, process: SimulatedDevice.app)
    }
}

/// Syncs the same file from another process, perhaps at the same time.
struct SyncInSecondProcess: Action {
    func weight(_ decisions: inout Decisions, profile: Profile) -> Int { decisions.pick([0, 0, 1, 3]) }

    func perform(in world: World) throws -> Bool {
        guard let device = world.device() else { return false }
        world.counters[.secondProcesses] += 1
        return try world.beginSync(device, process: 1)
    }
}

/// Decides a conflict, as a user does.
struct ResolveConflicts: Action {
    func weight(_ decisions: inout Decisions, profile: Profile) -> Int { decisions.pick([2, 2, 0, 5]) }

    func perform(in world: World) throws -> Bool {
        guard let device = world.runningDevice() else { return false }
        guard let id = try device.firstConflict() else { return false }
        try world.resolve(id, on: device, retries: world.decisions.chance(50))
        return true
    }
}

/// Joins one more device to the zone, from a snapshot.
struct JoinDevice: Action {
    func weight(_ decisions: inout Decisions, profile: Profile) -> Int { decisions.pick([0, 0, 0, 1]) }

    func perform(in world: World) throws -> Bool {
        guard world.devices.count < 6, world.server.isUp else { return false }
        world.counters[.joins] += 1
        try world.join()
        return true
    }
}
