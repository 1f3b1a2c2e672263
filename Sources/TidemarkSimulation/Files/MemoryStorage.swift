package import GRDB
import Synchronization
import TidemarkSQL

/// Files in memory, which keep exactly the committed data.
///
/// Each is a database of SQLite's `memdb` file system. It exists while a connection is open, so one
/// is kept open here.
package final class MemoryStorage: SimulatedStorage {
    private static let worlds = Mutex(0)

    private let prefix: String
    private var keepers: [String: DatabaseQueue] = [:]
    /// Connections of earlier worlds, with their prepared statements.
    ///
    /// To prepare them all takes longer than a run.
    private var idle: [String: DatabaseQueue] = [:]

    /// Makes an empty storage.
    package init() {
        let number = Self.worlds.withLock { worlds in
            worlds += 1
            return worlds
        }
        prefix = "file:/tidemark-\(number)-"
    }

    package var forgets: Bool { false }

    package func open(_ name: String) throws -> DatabaseQueue {
        if let database = idle.removeValue(forKey: name) { return database }
        if keepers[name] == nil { keepers[name] = try connect(name) }
        return try connect(name)
    }

    package func giveBack(_ name: String, _ database: DatabaseQueue) throws { idle[name] = database }

    package func path(of name: String) -> String { "\(prefix)\(name)?vfs=memdb" }

    package func crash(_ name: String, decide: (Int) -> Int) throws {}

    package func remove(_ name: String) throws {
        try idle.removeValue(forKey: name)?.close()
        try keepers.removeValue(forKey: name)?.close()
    }

    private func connect(_ name: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.label = name
        configuration.prepareDatabase { try EngineConnection.addFunctions(to: $0) }
        return try DatabaseQueue(path: path(of: name), configuration: configuration)
    }
}
