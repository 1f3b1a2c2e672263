import TidemarkHistory

/// Ends a device's process between any two steps, and starts it again later.
struct CrashDevice: Action {
    func weight(_ decisions: inout Decisions, profile: Profile) -> Int {
        profile.hasCrashes ? decisions.pick([0, 1, 2, 5]) : 0
    }

    func perform(in world: World) throws -> Bool {
        guard let device = world.runningDevice() else { return false }
        try world.crash(device)
        return true
    }
}

/// Ends the server's process between two requests, and starts it again later.
struct CrashServer: Action {
    func weight(_ decisions: inout Decisions, profile: Profile) -> Int {
        profile.hasCrashes ? decisions.pick([0, 1, 1, 3]) : 0
    }

    func perform(in world: World) throws -> Bool {
        guard world.server.isUp else { return false }
        try world.crashServer()
        return true
    }
}

/// Takes a device off the network, or back.
struct CutNetwork: Action {
    func weight(_ decisions: inout Decisions, profile: Profile) -> Int {
        profile.hasNetworkFaults ? decisions.pick([0, 1, 1, 3]) : 0
    }

    func perform(in world: World) throws -> Bool {
        guard let device = world.device() else { return false }
        device.isReachable.toggle()
        if !device.isReachable { world.counters[.partitions] += 1 }
        world.note("\(device.name) is \(device.isReachable ? "within" : "out of") reach")
        return true
    }
}

/// Shifts a device's clock by up to two days.
struct SkewClock: Action {
    func weight(_ decisions: inout Decisions, profile: Profile) -> Int { decisions.pick([0, 0, 1]) }

    func perform(in world: World) throws -> Bool {
        guard let device = world.device() else { return false }
        let hours = Int64(world.decisions.decide(97)) - 48
        device.virtual.skew(by: hours * 3_600_000_000)
        world.note("\(device.name) has a clock that is \(hours) h off")
        return true
    }
}
