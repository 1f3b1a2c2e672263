package import Foundation
internal import Tidemark
package import TidemarkCore
internal import TidemarkEmbedded
package import TidemarkEngine

/// The store of a campaign of secrecy, with no server before it yet.
package struct SecrecyStage: Sendable {
    /// The zones.
    package let service: any SyncService
    /// The users, tokens and rights.
    package let database: any AccessDatabase
    /// Makes zones.
    package let host: any ZoneHost
    /// Closes the files or connections.
    package let close: @Sendable () async throws -> Void

    /// Makes a stage around an open store.
    package init(
        service: any SyncService, database: any AccessDatabase, host: any ZoneHost,
        close: @escaping @Sendable () async throws -> Void = {}
    ) {
        self.service = service
        self.database = database
        self.host = host
        self.close = close
    }

    /// The tables of every zone: an assigned id, a key that the writer chooses, and a policy that overrules.
    package static let schema = """
        CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT, long TEXT, picture BLOB);
        CREATE TABLE tag (name TEXT PRIMARY KEY, text TEXT);
        CREATE TABLE mark (id INTEGER PRIMARY KEY, text TEXT);
        """

    /// The policies of the tables.
    package static let policies: [String: ConflictPolicy] = ["mark": .latest]

    /// The limits: listeners hear of changes within a tick, so the ticks are short.
    package static let limits: Limits = {
        var limits = Limits.standard
        limits.listenerTickMilliseconds = 20
        return limits
    }()

    /// Makes a stage of SQLite files in a folder.
    package static func embedded(in folder: URL) async throws -> SecrecyStage {
        let main = try EmbeddedStore(
            path: folder.appending(path: "main.sqlite").path, schemaSQL: schema,
            newEpoch: SyncEngine.Environment.system.newID(), policies: policies, limits: limits)
        let directory = ZoneDirectory(main: main, folder: folder.appending(path: "zones"), limits: limits)
        let users = try AccessFile(path: folder.appending(path: "access.sqlite").path)
        return SecrecyStage(service: directory, database: users, host: directory) {
            await directory.closeZones()
            try await main.close()
            try users.close()
        }
    }
}
