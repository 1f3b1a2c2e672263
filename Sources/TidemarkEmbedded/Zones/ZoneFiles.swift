import Foundation
import GRDB
import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// Makes, opens and removes the files of zones in a folder, with the tables of the main zone.
struct ZoneFiles: Sendable {
    let main: EmbeddedStore
    let folder: URL
    let limits: Limits
    let now: (@Sendable () -> Int64)?
    let metrics: ServerMetrics
    let warn: @Sendable (String) -> Void
    private let shapes = ZoneShapes()

    func file(of zone: String) -> URL { folder.appending(path: "\(zone).sqlite") }

    /// Whether a name can be one of a zone with a file of its own; such a name is safe in a path.
    static func isName(_ zone: String) -> Bool { ZoneName.isValid(zone) || ZoneName.isChosen(zone) }

    func isThere(_ zone: String) -> Bool {
        Self.isName(zone) && FileManager.default.fileExists(atPath: file(of: zone).path)
    }

    /// Makes a zone's file with empty tables; does nothing if it is there.
    func make(_ zone: String) async throws {
        guard !isThere(zone) else { return }
        let template = try await mainTables().template
        try await runOnOwnThread { [self] in
            guard !isThere(zone) else { return }
            try PrivateFile.makeFolder(folder)
            // Under its own name the file is complete: a crash leaves only a file to overwrite.
            let draft = folder.appending(path: ".\(zone).new")
            try TidemarkError.translatingStorageErrors(of: draft.path) {
                for suffix in Self.suffixes { removeIfThere(draft.path + suffix) }
                try PrivateFile.make(draft.path)
                let queue = try DatabaseQueue(path: draft.path)
                try queue.write { try template.make(in: $0) }
                try queue.close()
            }
            try FileManager.default.moveItem(at: draft, to: file(of: zone))
        }
    }

    /// Opens a zone's file, and gives it the main zone's tables and declarations.
    func open(_ zone: String) async throws -> EmbeddedStore {
        let main = try await mainTables()
        let file = file(of: zone)
        return try await runOnOwnThread { [self] in
            guard isThere(zone) else { throw Self.missing(zone) }
            let adoption = AdoptBesideMain(
                main: main, zone: zone, shapes: shapes,
                adopt: ZoneFile.adopting(zone, newEpoch: UUID(), excluding: main.template.localTables))
            return try EmbeddedStore(
                path: file.path, zone: zone, opening: ZoneFile.Opening(isFirst: true, altersTables: true),
                limits: limits, now: now, metrics: metrics, fanOut: self.main.fanOut, contacts: self.main.contacts,
                warn: warn, adopt: { try adoption.run(in: $0, opening: $1) })
        }
    }

    /// Begins new histories after a restore of the folder; returns the zones whose file fails, each with the reason.
    func beginNewHistories() async throws -> [String] {
        try await runOnOwnThread { [self] in
            DataPlaces.zoneNames(in: folder.path).compactMap { zone -> String? in
                let path = file(of: zone).path
                do {
                    try TidemarkError.translatingStorageErrors(of: path) { try Self.beginNewHistory(path) }
                    return nil
                } catch { return "zone \(zone) has no new history: \(error)" }
            }
        }
    }

    private static func beginNewHistory(_ path: String) throws {
        let queue = try DatabaseQueue(path: path, configuration: .waiting())
        try queue.writeWithoutTransaction { db in
            try EngineConnection.flushCommits(of: db)
            try db.inTransaction(.immediate) {
                // A zone that was never used has no history yet.
                guard try ZoneTables.areMade(in: db) else { return .rollback }
                try ZoneAdoption.beginNewHistory(UUID().uuidString.lowercased(), in: db)
                return .commit
            }
        }
        try queue.close()
    }

    /// Reads a zone's revision, and whether no program's changes wait to be logged; nil for a file never opened.
    ///
    /// It does not open the zone. Call it on a thread that may block. It throws `unavailable` when there is no file.
    func revision(of zone: String) throws -> (revision: ZoneRevision, isSettled: Bool)? {
        guard isThere(zone) else { throw Self.missing(zone) }
        let path = file(of: zone).path
        return try TidemarkError.translatingStorageErrors(of: path) {
            let queue = try DatabaseQueue(path: path, configuration: .waiting(label: "tidemark.revision"))
            let result = try queue.read { try Self.revision(of: zone, in: $0) }
            try queue.close()
            return result
        }
    }

    private static func revision(of zone: String, in db: Database) throws -> (ZoneRevision, Bool)? {
        guard try db.tableExists("tidemark_zone"),
            let row = try Row.fetchOne(
                db, sql: "SELECT epoch, revision, EXISTS (SELECT 1 FROM tidemark_capture) AS waits FROM tidemark_zone")
        else { return nil }
        let revision = try ZoneRevision(zone: zone, epoch: row.value("epoch"), revision: row.value("revision"))
        return (revision, try !row.value("waits"))
    }

    private static func missing(_ zone: String) -> TidemarkError {
        TidemarkError(
            .unavailable, "The file of this zone is missing on the server.",
            fix: "Put the file \(zone).sqlite back into the folder of zones, for instance from a backup.")
    }

    func remove(_ zone: String) { for suffix in Self.suffixes { removeIfThere(file(of: zone).path + suffix) } }

    private static let suffixes = ["", "-wal", "-shm", "-journal"]

    private func mainTables() async throws -> ZoneShapes.Main {
        let shapes = shapes
        return try await main.file.reading { try shapes.main(in: $0) }
    }
}
