internal import Foundation
internal import GRDB
internal import TidemarkCore

/// The files of an account: opening, closing, counting their edits, and removing them.
extension SyncAccount {
    func open(_ file: AccountRegistry.File) async throws -> AccountZone {
        if let zone = zones[file.name] { return zone }
        var configuration = configuration
        // The engine and other programs wait for each other, unless the app chose otherwise.
        if case .immediateError = configuration.busyMode { configuration.busyMode = .timeout(10) }
        let database = try DatabasePool(path: "\(folder)/\(file.name)", configuration: configuration)
        try await blocking { [migrate] in try migrate(database) }
        let transport = AccountTransport(server: address.hostAndPort, session)
        let sync = try await SyncEngine(
            database, server: server, zone: file.zone, user: file.user, transport: transport, environment: environment,
            merges: merges)
        let zone = AccountZone(zone: file.zone, database: database, sync: sync, file: file, transport: transport)
        zones[file.name] = zone
        if listening != nil { await sync.start(every: Self.roundInterval, isLive: false) }
        return zone
    }

    func close(_ file: AccountRegistry.File) async throws {
        guard let zone = zones.removeValue(forKey: file.name) else { return }
        zone.transport.connect(nil)
        await zone.sync.stop()
        do { try zone.database.close() } catch {
            // A statement of the app is still open. It reads the removed file to its end.
            return
        }
    }

    func edits(of file: AccountRegistry.File?) async throws -> Int? {
        guard let file else { return nil }
        return try await edits(of: [file])
    }

    /// Returns the number of change sets and conflicts in files.
    func edits(of files: [AccountRegistry.File]) async throws -> Int {
        var count = 0
        for file in files {
            let path = "\(folder)/\(file.name)"
            let database: any DatabaseReader
            if let zone = zones[file.name] {
                database = zone.database
            } else if FileManager.default.fileExists(atPath: path) {
                database = try DatabaseQueue(path: path)
            } else {
                continue
            }
            count += try await database.read { db in
                // Without the table, the process ended before the app could edit.
                guard try db.tableExists("tidemark_device") else { return 0 }
                let status = try DeviceStatus(db)
                return status.pendingChangeSets + status.conflicts
            }
        }
        return count
    }

    func refuseEdits(of files: [AccountRegistry.File], unless isPermitted: Bool) async throws {
        guard !isPermitted else { return }
        let count = try await edits(of: files)
        guard count == 0 else {
            throw SignInPlan.changesWait(count, fix: "Sync and resolve them first, or say despiteWaitingChanges: true.")
        }
    }

    func store(_ changed: AccountRegistry) throws {
        try changed.store(in: folder)
        registry = changed
        try environment.checkpoint()
    }

    func removeDiscarded() throws {
        guard !registry.discarded.isEmpty else { return }
        for name in registry.discarded {
            SnapshotScratch.removeAll(beside: "\(folder)/\(name)")
            SQLiteFiles.remove("\(folder)/\(name)")
            try environment.checkpoint()
        }
        var changed = registry
        changed.discarded.removeAll { !FileManager.default.fileExists(atPath: "\(folder)/\($0)") }
        try store(changed)
    }

    func transport(of user: String?) throws -> HTTPTransport {
        try HTTPTransport(
            url: server, credentials: credentials, user: user, certificateAuthorities: certificateAuthorities
        ).named(name)
    }

    var signInNeeded: TidemarkError {
        TidemarkError(
            .signInNeeded, "Nobody is signed in to \(address.hostAndPort).",
            fix: "Call signIn() first; without it only the private zone can be opened.")
    }
}
