package import GRDB
import TidemarkSQL
import TidemarkTestSupport

/// Files on disks whose calls fail and whose power goes.
///
/// After a power cut, unflushed data is kept, lost, torn or garbled. Each file has its own disk, so
/// that every computer loses power by itself. Connections open as the server and the engine open
/// them.
package final class FaultyStorage: SimulatedStorage {
    private var disks: [String: FaultVolume] = [:]

    /// Makes an empty storage.
    package init() {}

    package var forgets: Bool { true }

    package func open(_ name: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.label = name
        let isServer = name == SimulatedServer.fileName
        configuration.prepareDatabase { db in
            if isServer { try db.execute(sql: "PRAGMA journal_mode = WAL") }
            try EngineConnection.flushCommits(of: db)
            try EngineConnection.addFunctions(to: db)
        }
        return try DatabaseQueue(path: file(name), configuration: configuration)
    }

    package func path(of name: String) -> String { disks[name]?.path(of: name) ?? name }

    package func crash(_ name: String, decide: (Int) -> Int) throws {
        disks[name]?.crash(seed: UInt64(decide(1 << 30)))
    }

    package func remove(_ name: String) throws { disks[name] = nil }

    package func fail(_ name: String, call: Int, isPower: Bool) {
        disks[name]?.fail(isPower ? .power : .io, call: call)
    }

    package func heal(_ name: String) -> Bool {
        guard let disk = disks[name] else { return false }
        defer { disk.heal() }
        return disk.failureCount > 0
    }

    private func file(_ name: String) throws -> String {
        if let disk = disks[name] { return disk.path(of: name) }
        let disk = try FaultVolume()
        disks[name] = disk
        return disk.path(of: name)
    }
}
