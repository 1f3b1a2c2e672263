import GRDB
import TidemarkCore

/// Copies a device's file, and two devices go on with it.
struct CopyDevice: Action {
    func weight(_ decisions: inout Decisions, profile: Profile) -> Int {
        profile.copies ? decisions.pick([1, 0, 2]) : 0
    }

    func perform(in world: World) throws -> Bool {
        guard world.devices.count < 6, let device = world.device() else { return false }
        try world.copy(device)
        return true
    }
}

/// Backs up a file.
struct BackUp: Action {
    func weight(_ decisions: inout Decisions, profile: Profile) -> Int {
        profile.putsBack ? decisions.pick([3, 2, 6]) : 0
    }

    func perform(in world: World) throws -> Bool {
        let choice = world.decisions.decide(world.devices.count + 1)
        let device = choice == 0 ? nil : world[choice]
        // A captured edit gets its id later, and one in two files gets two.
        if world.options.profile.followsFates, let device, try device.waiting().captured > 0 { return false }
        try world.backUp(device)
        return true
    }
}

/// Restores a file from a backup.
///
/// The server is told of a restore of its own file.
struct PutBack: Action {
    func weight(_ decisions: inout Decisions, profile: Profile) -> Int {
        profile.putsBack ? decisions.pick([2, 1, 5]) : 0
    }

    func perform(in world: World) throws -> Bool {
        guard !world.backups.isEmpty else { return false }
        try world.putBack(world.backups[world.decisions.decide(world.backups.count)])
        return true
    }
}

extension World {
    /// Adds a device with a copy of another device's file, as it is between two steps.
    func copy(_ original: SimulatedDevice) throws {
        let number = devices.count + 1
        counters[.copies] += 1
        note("\(original.name) is copied, as device \(number)")
        let virtual = VirtualEnvironment(seed: options.seed &* 1_000 &+ UInt64(number))
        virtual.advance(to: now)
        try storage.remove("device-\(number)")
        let file = try storage.open("device-\(number)")
        try original.database.backup(to: file)
        try file.close()
        try add(number, virtual, copyOf: original)
    }

    /// Copies a device's file, or the server's.
    func backUp(_ device: SimulatedDevice?) throws {
        let name = "backup-\(backups.count + 1)"
        note("\(device?.name ?? "server") is backed up")
        if device == nil {
            try server.absorb()
            try recorder.served(server, request: nil, .success(nil))
        }
        try storage.remove(name)
        let file = try storage.open(name)
        try (device?.database ?? server.database).backup(to: file)
        try storage.giveBack(name, file)
        if let device { try recorder.copied(device, as: name) } else { try recorder.copiedServer(as: name) }
        backups.append(Backup(name: name, device: device, zone: recorder.zone))
    }

    /// Restores a file from a copy.
    func putBack(_ backup: Backup) throws {
        note("\(backup.device?.name ?? "server") is put back from \(backup.name)")
        let file = try storage.open(backup.name)
        if let device = backup.device {
            counters[.putBack] += 1
            if device.isUp { try crash(device) } else { try device.crash(opensAnew: false) { _ in 0 } }
            try file.backup(to: device.database)
            try recorder.replaced(device, by: backup.name)
        } else {
            counters[.restores] += 1
            if server.isUp { try crashServer() }
            let epoch = Self.epoch(counters[.restores])
            try server.putBack(file, policies: plan.policies, epoch: epoch)
            try recorder.restored(server, to: backup.zone, from: backup.name, devices: devices)
        }
        try storage.giveBack(backup.name, file)
    }

    /// The epoch after a number of restores.
    private static func epoch(_ number: Int) -> String {
        let digits = String(number, radix: 16)
        let zeros = String(repeating: "0", count: 12 - digits.count)
        return "00000000-0000-4000-8001-\(zeros)\(digits)"
    }
}
